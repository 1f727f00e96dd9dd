"""A request to /v1/images/edits, read from a form or from JSON: its texts checked, its pictures as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from qwen_image_gateway.bodies import JSON_TYPE, check_place, media_type, read_json, validated
from qwen_image_gateway.data_urls import content_of
from qwen_image_gateway.errors import invalid
from qwen_image_gateway.fields import EditFields
from qwen_image_gateway.multipart import read_multipart
from qwen_image_gateway.pictures import check_pictures

IMAGE_NAMES = ("image", "image[]", "images", "url")
MASK_NAMES = ("mask", "mask[]")
_FILE_NAMES = (*IMAGE_NAMES, *MASK_NAMES)
_FORM_TYPE = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class EditRequest:
    """One request to change pictures."""

    fields: EditFields
    pictures: Sequence[bytes] = field(repr=False)
    mask: bytes | None = field(repr=False)


async def read_edit(request: Request, max_picture_pixels: int) -> EditRequest:
    """The request in the body, a form or a JSON object.

    Raises:
        ApiError, RequestValidationError: what is wrong with it.
    """
    match media_type(request.headers):
        case "multipart/form-data":
            check_place(request)
            read = await _from_form(request)
        case "application/json":
            read = await _from_json(request)
        case _:
            kind = request.headers.get("content-type", "")
            raise invalid(f"content-type is {kind!r}, and must be {_FORM_TYPE} or {JSON_TYPE}", None, "invalid_form")
    if not read.pictures:
        raise invalid("image is missing: send the picture to change", "image", "missing_field")
    await asyncio.to_thread(check_pictures, read.pictures, max_picture_pixels)
    if read.mask is not None:
        await asyncio.to_thread(check_pictures, [read.mask], max_picture_pixels, "mask")
    return read


async def _from_form(request: Request) -> EditRequest:
    form = await read_multipart(request)
    try:
        files = [(name, await _content(name, value)) for name, value in form.multi_items() if name in _FILE_NAMES]
        fields = validated(EditFields, _texts(form), strict=False)
    finally:
        await form.close()
    return _edit_request(fields, files)


async def _from_json(request: Request) -> EditRequest:
    body = await read_json(request)
    given = {name: body.pop(name) for name in _FILE_NAMES if name in body}
    files = await asyncio.to_thread(lambda: [each for name in given for each in _contents(name, given[name])])
    return _edit_request(validated(EditFields, body, strict=True), files)


def _edit_request(fields: EditFields, files: Sequence[tuple[str, bytes]]) -> EditRequest:
    """An empty mask is what forms send for none; an empty picture is a mistake, told later."""
    masks = [content for name, content in files if name in MASK_NAMES and content]
    if len(masks) > 1:
        raise invalid(f"{len(masks)} masks: one is taken", "mask")
    pictures = [content for name, content in files if name in IMAGE_NAMES]
    return EditRequest(fields, pictures, masks[0] if masks else None)


async def _content(name: str, value: UploadFile | str) -> bytes:
    return content_of(name, value) if isinstance(value, str) else await value.read()


def _contents(name: str, value: Any) -> Iterator[tuple[str, bytes]]:
    """One picture or several: each a text, or an object that has one as `image_url` or `url`, as OpenAI nests it."""
    match value:
        case None:
            return
        case list():
            for each in value:
                yield from _contents(name, each)
        case {"image_url": nested, **others} | {"url": nested, **others} if not others:
            yield from _contents(name, nested)
        case str():
            yield name, content_of(name, value)
        case _:
            raise invalid(f'{name} must be a data URL, {{"image_url": one}} or a list of these', name)


def _texts(form: FormData) -> dict[str, Any]:
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
