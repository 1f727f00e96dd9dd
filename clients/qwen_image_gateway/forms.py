"""The form of /v1/images/edits, read: its texts checked, its pictures as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from qwen_image_gateway.errors import invalid
from qwen_image_gateway.fields import EditFields
from qwen_image_gateway.pictures import check_picture

_IMAGE_NAMES = ("image", "image[]")
_MAX_FILES = 17  # as many pictures as OpenAI takes, and a mask
_MAX_TEXTS = 64
_TYPE = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class EditForm:
    """One form."""

    fields: EditFields
    pictures: Sequence[bytes] = field(repr=False)
    mask: bytes | None = field(repr=False)


async def read_form(request: Request, max_picture_pixels: int) -> EditForm:
    """The form in the request's body.

    Raises:
        ApiError, RequestValidationError: what is wrong with it.
    """
    kind = request.headers.get("content-type", "")
    if kind.split(";")[0].strip().lower() != _TYPE:
        raise invalid(f"content-type is {kind!r}, and must be {_TYPE}: pictures come as files", None, "invalid_form")
    async with request.form(max_files=_MAX_FILES, max_fields=_MAX_TEXTS) as form:
        pictures = [await _file(name, value) for name, value in form.multi_items() if name in _IMAGE_NAMES]
        masks = [await _file(name, value) for name, value in form.multi_items() if name == "mask"]
        fields = _fields(form)
    if not pictures:
        raise invalid("image is missing: send the picture to change as a file", "image", "missing_field")
    if len(masks) > 1:
        raise invalid(f"{len(masks)} masks: one is taken", "mask")
    await asyncio.to_thread(_check_pictures, pictures, masks, max_picture_pixels)
    return EditForm(fields, pictures, masks[0] if masks else None)


def _check_pictures(pictures: Sequence[bytes], masks: Sequence[bytes], max_pixels: int) -> None:
    """Beside the event loop: a PNG's header may hold 64 MiB of packed text."""
    for picture in pictures:
        check_picture("image", picture, max_pixels)
    for mask in masks:
        check_picture("mask", mask, max_pixels)


async def _file(name: str, value: UploadFile | str) -> bytes:
    if isinstance(value, str):
        raise invalid(f"{name} must be a file, sent with a file name: base64 text and URLs aren't read", name)
    return await value.read()


def _fields(form: FormData) -> EditFields:
    texts: dict[str, object] = {}
    for name, value in form.multi_items():
        if name in (*_IMAGE_NAMES, "mask"):
            continue
        if isinstance(value, UploadFile):
            raise invalid(f"{name} is a file: only image and mask are files", name)
        if name in texts:
            raise invalid(f"{name} is given twice", name)
        texts[name] = value
    try:
        return EditFields.model_validate(texts)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from error
