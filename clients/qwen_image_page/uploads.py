"""Files that a visitor sends. gradio's own upload keeps files of broken, refused and unnamed parts; this keeps none."""

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

_AROUND_A_FILE = 64 * 1024  # bytes of a form that aren't the file's
_MAX_FILES = 16  # in one form
_NAME_LENGTH = 60  # characters, each of 4 bytes at most
_STRANGE = re.compile(r"[^\w.,\- ]")


async def upload(
    request: Request, visitors: Visitors, token: str | None, settings: PageSettings, folder: Path
) -> JSONResponse:
    """Keeps the form's `files` for the visitor, and answers with their paths.

    Raises:
        Refused: there is no such visitor, or no room, or the form is too large, too slow, or none.
    """
    visitor = await visitors.wait_for(token)
    bounded = Request(request.scope, body_within(request, settings.max_file_bytes + _AROUND_A_FILE))
    with visitors.uploading(visitor):
        try:
            async with (
                asyncio.timeout(settings.body_timeout_s) as reading,
                bounded.form(max_files=_MAX_FILES, max_fields=_MAX_FILES) as form,
            ):
                reading.reschedule(None)
                sent = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
                paths = [await _kept(each, visitor, visitors, folder) for each in sent]
        except TimeoutError as error:
            raise Refused(408, "the upload didn't come in time") from error
        except HTTPException as error:
            raise Refused(error.status_code, error.detail) from error
    return JSONResponse([str(path) for path in paths])


async def _kept(sent: UploadFile, visitor: Visitor, visitors: Visitors, folder: Path) -> Path:
    """What is sent again, as the brush does with every stroke, is kept once."""
    name = _STRANGE.sub("", Path(sent.filename or "").name)[-_NAME_LENGTH:].lstrip(".") or "picture"
    content = await sent.read()
    digest = await asyncio.to_thread(hashlib.sha256, content)
    digest.update(name.encode(errors="replace"))
    path = folder / f"visitor-{visitor.name}" / digest.hexdigest() / name
    if path in visitor.uploads and path.exists():
        visitor.uploads[path] = visitor.uploads.pop(path)  # the newest now
        return path
    visitors.make_room(visitor, len(content))
    visitor.uploads[path] = len(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(secrets.token_hex(8))  # the same may be on its way twice
    await asyncio.to_thread(part.write_bytes, content)
    part.replace(path)
    return path


def body_within(request: Request, most: int) -> Receive:
    """The request's body, as far as `most` bytes.

    Raises:
        Refused: at once if it is announced as more, or else once more has come.
    """
    announced, read = request.headers.get("content-length", "0"), 0
    if announced.isdigit() and int(announced) > most:
        raise Refused(413, f"the body has {announced} bytes, and may have {most}")

    async def receive() -> MutableMapping[str, Any]:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > most:
            raise Refused(413, f"the body has more than {most} bytes, as many as it may have")
        return message

    return receive
