"""What the gateway answers where it doesn't answer with a picture: one error class, and what becomes one.

The shape is OpenAI's: {"error": {"message", "type", "param", "code"}}.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from starlette.exceptions import HTTPException

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

_log = logging.getLogger("qwen_image_gateway")
RETRY_STATUSES = (429, 503)
CODES = (
    *("invalid_value", "unknown_field", "missing_field", "missing_body", "invalid_json", "invalid_form"),
    *("bad_request", "unsupported_encoding", "wrong_checkpoint", "invalid_request_id", "cancelled"),
    *("invalid_api_key", "cross_origin", "host_not_allowed"),
    *("model_not_found", "not_found", "method_not_allowed", "body_too_slow", "body_too_large", "picture_too_large"),
    *("gateway_busy", "queue_full", "caller_left", "answer_not_read", "internal_error"),
    *("triton_failed", "not_ready", "connection_lost", "timeout"),
)
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_QUEUE_FULL = "queue is full"  # the sampler's words; its other refusals mean that it is stopping
_NOT_FOUND = "NOT_FOUND"
_FIELDS_BY_INPUT = {"height": "size", "width": "size", "input_image": "image", "mask_image": "mask"}
_INPUTS = re.compile(
    r"\b(height|width|input_image|mask_image|prompt|negative_prompt|num_inference_steps|true_cfg_scale|seed|strength)\b"
)


class ApiError(HTTPException):
    """An answer that is an error.

    Attributes:
        code: the reason in one word, for programs.
        param: the field it is about, if it is about one.
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
        """OpenAI's shape. What can't travel as UTF-8 came from the caller and is replaced."""
        kind = _TYPES.get(self.status_code, "invalid_request_error" if self.status_code < 500 else "server_error")
        param = None if self.param is None else _utf8(self.param)
        return {"error": {"message": _utf8(self.detail), "type": kind, "param": param, "code": self.code}}


def invalid(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """The error for a value that isn't allowed."""
    return ApiError(400, message, code, param)


def unprocessable(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """The error for what the API allows, and the model that is served can't do."""
    return ApiError(422, message, code, param)


def not_ready(message: str) -> ApiError:
    """The error while Triton doesn't serve."""
    return ApiError(503, message, "not_ready")


def error_from_client(error: QwenImageClientError) -> ApiError:
    """The one place where what Triton says becomes a status."""
    words = error.message
    match error:
        case InvalidRequest():
            return unprocessable(words, _param(words))
        case ServerUnavailable() if _QUEUE_FULL in words:
            return ApiError(429, words, "queue_full")
        case ServerUnavailable() | ServerUnreachable():
            return not_ready(f"Triton doesn't take requests now: {words}")
        case ConnectionLost():
            return ApiError(503, f"the connection to Triton broke: {words}", "connection_lost")
        case Timeout():
            return ApiError(504, "the picture wasn't done in time; its work was ended", "timeout")
        case Cancelled():
            return ApiError(400, "the work was ended by its id", "cancelled")
        case _ if error.status == _NOT_FOUND:
            return not_ready("Triton doesn't serve the model now")
        case ServerError(is_from_model=True):
            return ApiError(502, f"Triton failed: {words}", "triton_failed")
        case _:  # Triton's own words may name shared memory and processes
            _log.error("Triton failed: %r", error)
            return ApiError(502, "Triton failed; the gateway's log has its words", "triton_failed")


def _param(words: str) -> str | None:
    """The field that a message is about: it names the input first."""
    found = _INPUTS.search(words)
    return None if found is None else _FIELDS_BY_INPUT.get(found[1], found[1])


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()
