"""A request to /v1/images/edits, read from a form or from JSON: its fields validated, its images as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from qwen_image_gateway.errors import invalid
from qwen_image_gateway.requests.bodies import FORM_TYPE, JSON_TYPE, media_type, read_form, read_json, validate
from qwen_image_gateway.requests.images import check_images, decode_data_url
from qwen_image_gateway.schemas import EditFields

IMAGE_NAMES = ("image", "image[]", "images", "url")
MASK_NAMES = ("mask", "mask[]")
_FILE_NAMES = (*IMAGE_NAMES, *MASK_NAMES)


@dataclass(frozen=True, slots=True)
class EditRequest:
    """One request to edit images."""

    fields: EditFields
    images: Sequence[bytes] = field(repr=False)
    mask: bytes | None = field(repr=False)


async def read_edit(request: Request, max_pixels: int) -> EditRequest:
    """The request in a form or a JSON object; `max_pixels` bounds each image.

    Raises:
        ApiError, RequestValidationError: what is wrong with it.
    """
    kind = media_type(request.headers)
    if kind == FORM_TYPE:
        edit = await _from_form(request)
    elif kind == JSON_TYPE:
        edit = await _from_json(request)
    else:
        sent = request.headers.get("content-type", "")
        raise invalid(f"content-type is {sent!r}, and must be {FORM_TYPE} or {JSON_TYPE}", None, "invalid_form")
    if not edit.images:
        raise invalid("image is missing: send the picture to change", "image", "missing_field")
    await asyncio.to_thread(check_images, edit.images, max_pixels)
    if edit.mask is not None:
        await asyncio.to_thread(check_images, [edit.mask], max_pixels, "mask")
    return edit


async def _from_form(request: Request) -> EditRequest:
    form = await read_form(request)
    try:
        files = [(name, await _read_file(name, value)) for name, value in form.multi_items() if name in _FILE_NAMES]
        fields = validate(EditFields, _read_texts(form), strict=False)
    finally:
        await form.close()
    return _edit_request(fields, files)


async def _from_json(request: Request) -> EditRequest:
    body = await read_json(request)
    given = {name: body.pop(name) for name in _FILE_NAMES if name in body}
    files = await asyncio.to_thread(lambda: [file for name in given for file in _decode_files(name, given[name])])
    return _edit_request(validate(EditFields, body, strict=True), files)


def _edit_request(fields: EditFields, files: Sequence[tuple[str, bytes]]) -> EditRequest:
    """Forms send an empty file for no mask. An empty image is an error, raised by `check_images`."""
    masks = [content for name, content in files if name in MASK_NAMES and content]
    if len(masks) > 1:
        raise invalid(f"{len(masks)} masks: one is taken", "mask")
    images = [content for name, content in files if name in IMAGE_NAMES]
    return EditRequest(fields, images, masks[0] if masks else None)


async def _read_file(name: str, value: UploadFile | str) -> bytes:
    return decode_data_url(name, value) if isinstance(value, str) else await value.read()


def _decode_files(name: str, value: Any) -> Iterator[tuple[str, bytes]]:
    """One image or several: each a text, or an object that has it as `image_url` or `url`, as OpenAI nests it."""
    match value:
        case None:
            return
        case list():
            for each in value:
                yield from _decode_files(name, each)
        case {"image_url": nested, **others} | {"url": nested, **others} if not others:
            yield from _decode_files(name, nested)
        case str():
            yield name, decode_data_url(name, value)
        case _:
            raise invalid(f'{name} must be a data URL, {{"image_url": one}} or a list of these', name)


def _read_texts(form: FormData) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name in _FILE_NAMES:
            continue
        if isinstance(value, UploadFile):
            raise invalid(f"{name} is a file: only image and mask are files", name)
        if name in texts:
            raise invalid(f"{name} is given twice", name)
        texts[name] = value
    return texts
