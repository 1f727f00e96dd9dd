"""Errors on their way out: as responses, and from whatever FastAPI and Starlette raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from qwen_image_client import QwenImageClientError
from qwen_image_gateway.errors import RETRY_STATUSES, ApiError, error_from_client
from qwen_image_gateway.leaving import caller_left
from qwen_image_gateway.validation import error_from_validation

ERROR_CODE = "qwen_image_gateway.error_code"  # in the scope, for metrics and the log
ERROR_PARAM = "qwen_image_gateway.error_param"  # and the field, for the log
_CODES = {404: "not_found", 405: "method_not_allowed"}


class ErrorResponse(JSONResponse):
    """An error as a response. The connection is closed where a body may be left that nobody reads."""

    def __init__(self, error: ApiError, retry_after_s: int) -> None:
        headers = dict(error.headers or {})
        if error.status_code in RETRY_STATUSES:
            headers["retry-after"] = str(retry_after_s)
        if error.status_code in (401, 408, 413, 415, 429):
            headers["connection"] = "close"
        super().__init__(error.body(), error.status_code, headers)
        self._code, self._param = error.code, error.param

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ERROR_CODE], scope[ERROR_PARAM] = self._code, self._param
        await super().__call__(scope, receive, send)


def answer_errors(app: FastAPI, retry_after_s: int) -> None:
    """Makes every error of the application's routes one in OpenAI's shape."""

    async def answer(request: Request, error: Exception) -> ErrorResponse:
        return ErrorResponse(as_api_error(error, request.scope), retry_after_s)

    for kind in (HTTPException, RequestValidationError, QwenImageClientError, ClientDisconnect):
        app.add_exception_handler(kind, answer)


def internal_error() -> ApiError:
    """The answer to a mistake of ours."""
    return ApiError(500, "the gateway failed; its log tells why by the request's id", "internal_error")


def as_api_error(error: Exception, scope: Mapping[str, Any]) -> ApiError:
    """What is answered for an exception that isn't a mistake of ours; that is raised again."""
    match error:
        case ApiError():
            return error
        case QwenImageClientError():
            return error_from_client(error)
        case ClientDisconnect():
            return caller_left()
        case RequestValidationError():
            return error_from_validation(error.errors())
        case HTTPException() if isinstance(error.__cause__, ClientDisconnect):  # FastAPI's, while it reads JSON
            return caller_left()
        case HTTPException():
            message = f"{scope['method']} {scope['path']}: {error.detail}"
            return ApiError(
                error.status_code, message, _CODES.get(error.status_code, "bad_request"), None, error.headers
            )
        case _:
            raise error
