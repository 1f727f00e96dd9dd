"""Starlette's reader of forms, made strict: a form that is cut off and text that is no UTF-8 are errors."""

from __future__ import annotations

import codecs
from contextlib import suppress

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from qwen_image_gateway.errors import invalid

_MAX_FILES = 17  # as many pictures as OpenAI takes, and a mask
_MAX_TEXTS = 64
_UNCHANGED = ("7bit", "8bit", "binary")


async def read_multipart(request: Request) -> FormData:
    """The form in the request's body; whoever calls closes it.

    Raises:
        ApiError: it is malformed, ends before its closing boundary, or has a text that is no UTF-8.
    """
    _check_outer_charset(request)
    parser = _StrictParser(request.headers, request.stream(), max_files=_MAX_FILES, max_fields=_MAX_TEXTS)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise invalid(error.message, None, "invalid_form") from error
    if not parser.is_complete:
        await form.close()
        raise invalid("the form is cut off: its closing boundary is missing", None, "invalid_form")
    return form


def _check_outer_charset(request: Request) -> None:
    charset = _parameter(request.headers.get("content-type", "").encode("latin-1"), b"charset", "utf-8")
    if not _is_utf8(charset):
        raise invalid(f"the form is sent in {charset}: send it in UTF-8", None, "invalid_form")


class _StrictParser(MultiPartParser):
    is_complete = False

    def on_headers_finished(self) -> None:
        part = self._current_part
        _, options = parse_options_header(part.content_disposition)
        name = _text(options.get(b"name", b""), "a field's name")
        if b"filename" in options:
            _text(options[b"filename"], f"the file name of {name}")
        headers = [header for header, _ in part.item_headers]
        if headers.count(b"content-disposition") > 1:
            raise invalid(f"{name} has two headers content-disposition: send one", name)
        encoding = dict(part.item_headers).get(b"content-transfer-encoding", b"binary").decode("latin-1")
        if encoding.strip().lower() not in _UNCHANGED:
            raise invalid(f"{name} has content-transfer-encoding {encoding!r}: send it as it is", name)
        super().on_headers_finished()

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            kind = dict(part.item_headers).get(b"content-type", b"")
            charset = _parameter(kind, b"charset", "utf-8")
            if not (_is_utf8(charset) or _is_ascii_in(part.data, charset)):
                raise invalid(f"{part.field_name} is sent in {charset}: send it in UTF-8", part.field_name)
            _text(part.data, part.field_name)
        super().on_part_end()

    def on_end(self) -> None:
        self.is_complete = True


def _parameter(header: bytes, name: bytes, default: str) -> str:
    return parse_options_header(header)[1].get(name, default.encode()).decode("latin-1")


def _text(content: bytes | bytearray, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise invalid(f"{name} is no UTF-8 from byte {error.start} on", name) from error


def _is_utf8(charset: str) -> bool:
    with suppress(LookupError):
        return codecs.lookup(charset).name in ("utf-8", "ascii")
    return False


def _is_ascii_in(content: bytes | bytearray, charset: str) -> bool:
    """Whether the text is the same in UTF-8: many tools name ISO-8859-1 whatever they send."""
    with suppress(LookupError, UnicodeDecodeError):
        return content.isascii() and content.decode(charset) == content.decode("ascii")
    return False
