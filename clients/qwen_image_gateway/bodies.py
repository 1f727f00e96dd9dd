"""JSON bodies, read so that nothing the caller sent is lost: a name that is given twice is an error, as bytes that are
no UTF-8 are."""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from qwen_image_gateway.errors import ApiError, invalid
from qwen_image_gateway.fields import EditFields

Body = TypeVar("Body", bound=BaseModel)
JSON_TYPE = "application/json"
_BOM = b"\xef\xbb\xbf"


def media_type(headers: Headers) -> str:
    """The content type without its parameters, lower case; empty if none is sent."""
    return headers.get("content-type", "").split(";")[0].strip().lower()


def check_place(request: Request) -> None:
    """Refuses compressed bodies, and fields that stand in the URL instead: nobody would heed them there.

    Raises:
        ApiError: what arrived, and what to do.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(
            415, f"content-encoding is {encoding!r}: send the body uncompressed", "unsupported_encoding", None
        )
    for name in request.query_params:
        if name in EditFields.model_fields:
            raise invalid(f"{name} stands in the URL: send it in the body", name)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in the request's body.

    Raises:
        ApiError: it is no JSON object in UTF-8, or has a name twice.
    """
    check_place(request)
    content = await request.body()
    if not content:
        raise invalid("the body is missing: send a JSON object with a prompt", None, "missing_body")
    if media_type(request.headers) != JSON_TYPE:
        kind = request.headers.get("content-type", "")
        raise invalid(f"content-type is {kind!r}; the body must be a JSON object, sent as {JSON_TYPE}", None)
    parsed = await asyncio.to_thread(_parsed, content)  # 64 MiB of base64 take a while
    if not isinstance(parsed, dict):
        raise invalid(f"the body must be a JSON object, and is a {type(parsed).__name__}", None)
    return parsed


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content.removeprefix(_BOM).decode(), object_pairs_hook=_without_repetition)
    except UnicodeDecodeError as error:
        raise invalid(f"the body is no JSON: byte {error.start} is no UTF-8", None, "invalid_json") from error
    except RecursionError as error:
        raise invalid("the body is no JSON that is taken: it is nested too deeply", None, "invalid_json") from error
    except ValueError as error:
        raise invalid(f"the body is no JSON: {error}", None, "invalid_json") from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in pairs:
        if name in read:
            raise invalid(f"{name} is given twice", name)
        read[name] = value
    return read


def validated(kind: type[Body], values: dict[str, Any], *, strict: bool) -> Body:
    """The fields, checked. `strict` takes types as they stand: "4" is no number.

    Raises:
        RequestValidationError: what is wrong with them.
    """
    try:
        return kind.model_validate(values, strict=strict)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from error
