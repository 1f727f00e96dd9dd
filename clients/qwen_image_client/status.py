"""The one place where Triton's statuses become the client's errors."""

import re

from qwen_image_client.errors import (
    Cancelled,
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    ServerError,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
)

_BY_STATUS: dict[str, type[QwenImageClientError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "UNAVAILABLE": ServerUnavailable,
    "CANCELLED": Cancelled,
    "DEADLINE_EXCEEDED": Timeout,
    "400": InvalidRequest,
    "499": Cancelled,
    "503": ServerUnavailable,
}
IN_A_STREAM = "UNKNOWN"  # what an error has that came as a message of a gRPC stream
# gRPC reports its own transport's failures as UNAVAILABLE too, told apart only by their words.
_NO_CONNECTION = (
    "failed to connect",
    "errors resolving",
    "dns resolution failed",
    "connections to all backends failing",
)
_BROKEN_CONNECTION = (
    "stream removed",
    "socket closed",
    "connection reset",
    "broken pipe",
    "goaway",
    "recvmsg",
    "ping timeout",
    "keepalive",
    "transport closed",
)
WRONG_PORT_FOR_GRPC = (
    "; if this is Triton's HTTP port, name its gRPC port instead, 8001 unless it was set, or begin the url with http://"
)
WRONG_PORT_FOR_HTTP = (
    "what listens there speaks no HTTP/1; if this is Triton's gRPC port, name its HTTP port instead, 8000 unless it "
    "was set, or begin the url with grpc://"
)
_STATUS_IN_WORDS = re.compile(r" \[([A-Z_]+)\]$")  # the server ends its words with it: a stream's errors have no other
_ENSEMBLE_PREFIX = re.compile(r"^in ensemble '[^']*', ")  # tells of Triton's inside, not of the request


def error_from_status(status: str, message: str, request_id: str | None) -> QwenImageClientError:
    """The error for a status the server sent.

    Args:
        status: a gRPC code's name ("UNAVAILABLE") or an HTTP status ("503"); IN_A_STREAM where only the words tell.
    """
    words = _ENSEMBLE_PREFIX.sub("", message)
    if said := _STATUS_IN_WORDS.search(words):
        words = words[: said.start()]
        status = said[1] if status == IN_A_STREAM else status
    kind = _BY_STATUS.get(status, ServerError)
    if status == "400" and words == f"request {request_id} was cancelled":
        kind = Cancelled  # an older Triton has no HTTP status for it and falls back to 400
    error = kind(words, request_id=request_id, status=status)
    if isinstance(error, ServerError):
        error.is_from_model = said is not None
    return error


def error_from_grpc(code: str, details: str, request_id: str | None) -> QwenImageClientError:
    """The error for a failed gRPC call, whether the server or the transport failed it."""
    words = details.lower()
    if code == "UNAVAILABLE" and any(mark in words for mark in _NO_CONNECTION):
        hint = WRONG_PORT_FOR_GRPC if "socket closed" in words else ""  # somebody listens, and hung up at once
        return ServerUnreachable(details + hint, request_id=request_id)
    if code == "UNAVAILABLE" and any(mark in words for mark in _BROKEN_CONNECTION):
        return ConnectionLost(details, request_id=request_id)
    return error_from_status(code, details, request_id)
