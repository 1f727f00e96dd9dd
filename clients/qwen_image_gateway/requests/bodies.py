"""Bodies, JSON and multipart, read so that nothing the caller sent is lost: a name that is given twice, text that isn't
UTF-8 and a form that is cut off are errors."""

from __future__ import annotations

import asyncio
import codecs
import json
from contextlib import suppress
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from qwen_image_gateway.errors import ApiError, invalid
from qwen_image_gateway.schemas import EditFields

Body = TypeVar("Body", bound=BaseModel)
JSON_TYPE = "application/json"
FORM_TYPE = "multipart/form-data"
_BOM = b"\xef\xbb\xbf"
_MAX_FILES = 17  # as many images as OpenAI takes, and a mask
_MAX_TEXTS = 64
_IDENTITY_ENCODINGS = ("7bit", "8bit", "binary")


def media_type(headers: Headers) -> str:
    """The content type without its parameters, lower case; empty if none is sent."""
    return headers.get("content-type", "").split(";")[0].strip().lower()


def validate(kind: type[Body], values: dict[str, Any], *, strict: bool) -> Body:
    """The fields, validated. `strict` converts no types: "4" is no number.

    Raises:
        RequestValidationError: what is wrong with them.
    """
    try:
        return kind.model_validate(values, strict=strict)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from error


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in the request's body.

    Raises:
        ApiError: it is no JSON object in UTF-8, or has a name twice.
    """
    _check_encoding_and_query(request)
    content = await request.body()
    if not content:
        raise invalid("the body is missing: send a JSON object with a prompt", None, "missing_body")
    if media_type(request.headers) != JSON_TYPE:
        kind = request.headers.get("content-type", "")
        raise invalid(f"content-type is {kind!r}; the body must be a JSON object, sent as {JSON_TYPE}", None)
    parsed = await asyncio.to_thread(_parse_json, content)  # 64 MiB of base64 take a while
    if not isinstance(parsed, dict):
        raise invalid(f"the body must be a JSON object, and is a {type(parsed).__name__}", None)
    return parsed


async def read_form(request: Request) -> FormData:
    """The multipart form in the request's body; the caller closes it.

    Raises:
        ApiError: it is malformed, ends before its closing boundary, or has a text that isn't UTF-8.
    """
    _check_encoding_and_query(request)
    _check_form_charset(request)
    parser = _StrictParser(request.headers, request.stream(), max_files=_MAX_FILES, max_fields=_MAX_TEXTS)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise invalid(error.message, None, "invalid_form") from error
    if not parser.is_complete:
        await form.close()
        raise invalid("the form is cut off: its closing boundary is missing", None, "invalid_form")
    return form


def _check_encoding_and_query(request: Request) -> None:
    """Refuses compressed bodies, and fields in the URL, which would be ignored there."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(
            415, f"content-encoding is {encoding!r}: send the body uncompressed", "unsupported_encoding", None
        )
    for name in request.query_params:
        if name in EditFields.model_fields:
            raise invalid(f"{name} stands in the URL: send it in the body", name)


def _parse_json(content: bytes) -> Any:
    try:
        return json.loads(content.removeprefix(_BOM).decode(), object_pairs_hook=_reject_duplicates)
    except UnicodeDecodeError as error:
        raise invalid(f"the body is no JSON: byte {error.start} is no UTF-8", None, "invalid_json") from error
    except RecursionError as error:
        raise invalid("the body is no JSON that is taken: it is nested too deeply", None, "invalid_json") from error
    except ValueError as error:
        raise invalid(f"the body is no JSON: {error}", None, "invalid_json") from error


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise invalid(f"{name} is given twice", name)
        values[name] = value
    return values


def _check_form_charset(request: Request) -> None:
    charset = _read_parameter(request.headers.get("content-type", "").encode("latin-1"), b"charset", "utf-8")
    if not _is_utf8(charset):
        raise invalid(f"the form is sent in {charset}: send it in UTF-8", None, "invalid_form")


class _StrictParser(MultiPartParser):
    """Starlette's parser, which by itself takes a form that is cut off and replaces what isn't UTF-8."""

    is_complete = False

    def on_headers_finished(self) -> None:
        part = self._current_part
        _, options = parse_options_header(part.content_disposition)
        name = _decode(options.get(b"name", b""), "a field's name")
        if b"filename" in options:
            _decode(options[b"filename"], f"the file name of {name}")
        headers = [header for header, _ in part.item_headers]
        if headers.count(b"content-disposition") > 1:
            raise invalid(f"{name} has two headers content-disposition: send one", name)
        encoding = dict(part.item_headers).get(b"content-transfer-encoding", b"binary").decode("latin-1")
        if encoding.strip().lower() not in _IDENTITY_ENCODINGS:
            raise invalid(f"{name} has content-transfer-encoding {encoding!r}: send it as it is", name)
        super().on_headers_finished()

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            kind = dict(part.item_headers).get(b"content-type", b"")
            charset = _read_parameter(kind, b"charset", "utf-8")
            if not (_is_utf8(charset) or _is_ascii_in(part.data, charset)):
                raise invalid(f"{part.field_name} is sent in {charset}: send it in UTF-8", part.field_name)
            _decode(part.data, part.field_name)
        super().on_part_end()

    def on_end(self) -> None:
        self.is_complete = True


def _read_parameter(header: bytes, name: bytes, default: str) -> str:
    return parse_options_header(header)[1].get(name, default.encode()).decode("latin-1")


def _decode(content: bytes | bytearray, name: str) -> str:
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
