"""Uploads of visitors. gradio's own route keeps the files of broken, refused and unnamed parts; this one keeps none."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive

from qwen_image_page.settings import PageSettings
from qwen_image_page.visitors import Refused, Visitor, Visitors

_FORM_OVERHEAD = 64 * 1024  # bytes of a form beside the file
_MAX_FILES = 16  # in one form
_NAME_LENGTH = 60  # characters, each of 4 bytes at most
_FORBIDDEN = re.compile(r"[^\w.,\- ]")


async def upload(
    request: Request, visitors: Visitors, token: str | None, settings: PageSettings, folder: Path
) -> JSONResponse:
    """Stores the form's `files` for the visitor, and responds with their paths.

    Raises:
        Refused: the visitor is unknown, there is no room, or the form is malformed, too large or too slow.
    """
    visitor = await visitors.wait_for(token)
    bounded = Request(request.scope, limit_body(request, settings.max_file_bytes + _FORM_OVERHEAD))
    with visitors.uploading(visitor):
        try:
            async with (
                asyncio.timeout(settings.body_timeout_s) as reading,
                bounded.form(max_files=_MAX_FILES, max_fields=_MAX_FILES) as form,
            ):
                reading.reschedule(None)
                sent = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
                paths = [await _store(each, visitor, visitors, folder) for each in sent]
        except TimeoutError as error:
            raise Refused(408, "the upload didn't come in time") from error
        except HTTPException as error:
            raise Refused(error.status_code, error.detail) from error
    return JSONResponse([str(path) for path in paths])


async def _store(sent: UploadFile, visitor: Visitor, visitors: Visitors, folder: Path) -> Path:
    """A file that is sent again, as the brush does at every stroke, is stored once."""
    name = _FORBIDDEN.sub("", Path(sent.filename or "").name)[-_NAME_LENGTH:].lstrip(".") or "picture"
    content = await sent.read()
    digest = await asyncio.to_thread(hashlib.sha256, content)
    digest.update(name.encode(errors="replace"))
    path = folder / f"visitor-{visitor.name}" / digest.hexdigest() / name
    if path in visitor.uploads and path.exists():
        visitor.uploads[path] = visitor.uploads.pop(path)  # now the newest
        return path
    visitors.make_room(visitor, len(content))
    visitor.uploads[path] = len(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(secrets.token_hex(8))  # the same file may be uploaded twice at a time
    await asyncio.to_thread(part.write_bytes, content)
    part.replace(path)
    return path


def limit_body(request: Request, max_bytes: int) -> Receive:
    """The request's body, of at most `max_bytes`.

    Raises:
        Refused: at once by its content-length, or else when more has come.
    """
    length, read = request.headers.get("content-length", "0"), 0
    if length.isdigit() and int(length) > max_bytes:
        raise Refused(413, f"the body has {length} bytes, and may have {max_bytes}")

    async def receive() -> MutableMapping[str, Any]:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > max_bytes:
            raise Refused(413, f"the body has more than {max_bytes} bytes, as many as it may have")
        return message

    return receive
