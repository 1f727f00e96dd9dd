"""Errors: what the gateway answers in place of an image, what becomes one, and how it goes out.

The shape is OpenAI's: {"error": {"message", "type", "param", "code"}}.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from qwen_image_client import (
    Cancelled,
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    ServerError,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
)
from qwen_image_contract import INPUTS

_log = logging.getLogger("qwen_image_gateway")
CODES = (
    *("invalid_value", "unknown_field", "missing_field", "missing_body", "invalid_json", "invalid_form"),
    *("bad_request", "unsupported_encoding", "wrong_checkpoint", "invalid_request_id", "cancelled"),
    *("invalid_api_key", "cross_origin", "host_not_allowed"),
    *("model_not_found", "not_found", "method_not_allowed", "body_too_slow", "body_too_large", "picture_too_large"),
    *("gateway_busy", "queue_full", "caller_left", "answer_not_read", "internal_error"),
    *("triton_failed", "not_ready", "connection_lost", "timeout"),
)
CLIENT_CLOSED_REQUEST = 499  # nginx's status; only metrics and the log see it
ERROR_CODE = "qwen_image_gateway.error_code"  # key of the ASGI scope, read by metrics and the log
ERROR_PARAM = "qwen_image_gateway.error_param"  # key of the ASGI scope, read by the log
_RETRY_STATUSES = (429, 503)
_CLOSING_STATUSES = (401, 408, 413, 415, 429)  # a part of the body may still be unread
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
_QUEUE_FULL = "queue is full"  # in the sampler's message; its other refusals mean that it is stopping
_NOT_FOUND = "NOT_FOUND"
_FIELDS_BY_INPUT = {  # where a public input's name is not the field's
    "height": "size",
    "width": "size",
    "input_image": "image",
    "mask_image": "mask",
    "preview_every": "partial_images",
    "num_previews": "partial_images",
}
_INPUTS = re.compile(rf"\b({'|'.join(each.name for each in INPUTS)})\b")
_MAX_SHOWN = 60  # characters of a rejected value
_REASONS = {
    "background": "pictures have no transparency",
    "size": "the text is WIDTHxHEIGHT or auto",
}
_LOCATIONS = ("body", "query", "path")


class ApiError(HTTPException):
    """An error as callers see it.

    Attributes:
        code: the reason in one word, for programs.
        param: the field at fault; None if there is none.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.param = param

    def body(self) -> dict[str, object]:
        """OpenAI's shape. Characters that UTF-8 can't hold came from the caller and are replaced."""
        kind = _TYPES.get(self.status_code, "invalid_request_error" if self.status_code < 500 else "server_error")
        param = None if self.param is None else _replace_surrogates(self.param)
        message = _replace_surrogates(self.detail)
        return {"error": {"message": message, "type": kind, "param": param, "code": self.code}}


class ErrorResponse(JSONResponse):
    """An error as a response. It closes the connection where a part of the body may still be unread."""

    def __init__(self, error: ApiError, retry_after_s: int) -> None:
        headers = dict(error.headers or {})
        if error.status_code in _RETRY_STATUSES:
            headers["retry-after"] = str(retry_after_s)
        if error.status_code in _CLOSING_STATUSES:
            headers["connection"] = "close"
        super().__init__(error.body(), error.status_code, headers)
        self._code, self._param = error.code, error.param

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ERROR_CODE], scope[ERROR_PARAM] = self._code, self._param
        await super().__call__(scope, receive, send)


def add_error_handlers(app: FastAPI, retry_after_s: int) -> None:
    """Gives every error of the application's routes OpenAI's shape."""

    async def respond(request: Request, error: Exception) -> ErrorResponse:
        return ErrorResponse(to_api_error(error, request.scope), retry_after_s)

    for kind in (HTTPException, RequestValidationError, QwenImageClientError, ClientDisconnect):
        app.add_exception_handler(kind, respond)


def to_api_error(error: Exception, scope: Mapping[str, Any]) -> ApiError:
    """The error to answer for an exception. A bug of the gateway's own is raised again."""
    match error:
        case ApiError():
            return error
        case QwenImageClientError():
            return error_from_client(error)
        case ClientDisconnect():
            return client_disconnected()
        case RequestValidationError():
            return error_from_validation(error.errors())
        case HTTPException() if isinstance(error.__cause__, ClientDisconnect):  # FastAPI's, while it reads JSON
            return client_disconnected()
        case HTTPException():
            message = f"{scope['method']} {scope['path']}: {error.detail}"
            code = _HTTP_CODES.get(error.status_code, "bad_request")
            return ApiError(error.status_code, message, code, None, error.headers)
        case _:
            raise error


def invalid(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """The error for a value that isn't allowed."""
    return ApiError(400, message, code, param)


def unprocessable(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """The error for a request that the API allows and the served model can't fulfil."""
    return ApiError(422, message, code, param)


def not_ready(message: str) -> ApiError:
    """The error while Triton doesn't serve."""
    return ApiError(503, message, "not_ready")


def client_disconnected() -> ApiError:
    """The error of a request whose client closed the connection; nobody reads it."""
    return ApiError(CLIENT_CLOSED_REQUEST, "the connection was closed", "caller_left")


def response_not_read() -> ApiError:
    """The error of a client that doesn't read its response; nobody reads it."""
    return ApiError(CLIENT_CLOSED_REQUEST, "the answer wasn't read", "answer_not_read")


def internal_error() -> ApiError:
    """The error for a bug of the gateway's own."""
    return ApiError(500, "the gateway failed; its log tells why by the request's id", "internal_error")


def error_from_client(error: QwenImageClientError) -> ApiError:
    """The one place where an error of Triton's gets a status."""
    message = error.message
    match error:
        case InvalidRequest():
            return unprocessable(message, _find_field(message))
        case ServerUnavailable() if _QUEUE_FULL in message:
            return ApiError(429, message, "queue_full")
        case ServerUnavailable() | ServerUnreachable():
            return not_ready(f"Triton doesn't take requests now: {message}")
        case ConnectionLost():
            return ApiError(503, f"the connection to Triton broke: {message}", "connection_lost")
        case Timeout():
            return ApiError(504, "the picture wasn't done in time; its work was ended", "timeout")
        case Cancelled():
            return ApiError(400, "the work was ended by its id", "cancelled")
        case _ if error.status == _NOT_FOUND:
            return not_ready("Triton doesn't serve the model now")
        case ServerError(is_from_model=True):
            return ApiError(502, f"Triton failed: {message}", "triton_failed")
        case _:  # Triton's own messages may name shared memory and processes
            _log.error("Triton failed: %r", error)
            return ApiError(502, "Triton failed; the gateway's log has its words", "triton_failed")


def error_from_validation(errors: Sequence[Any]) -> ApiError:
    """The error for pydantic's first finding: the field, what arrived, what is allowed, and why."""
    first = errors[0]
    param = ".".join(str(part) for part in first["loc"] if part not in _LOCATIONS) or None
    match first["type"]:
        case "missing":
            return invalid(f"{param} is missing", param, "missing_field")
        case "extra_forbidden":
            return invalid(f"{param} is no field that is known here", param, "unknown_field")
        case _:
            return invalid(_validation_message(param, first), param)


def _validation_message(param: str | None, error: Any) -> str:
    value = repr(error["input"])
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    reason = f" ({_REASONS[param]})" if param in _REASONS else ""
    return f"{param}={shown}: {error['msg']}{reason}"


def _find_field(message: str) -> str | None:
    """The field that a message of Triton's is about: it names the input first."""
    found = _INPUTS.search(message)
    return None if found is None else _FIELDS_BY_INPUT.get(found[1], found[1])


def _replace_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()
