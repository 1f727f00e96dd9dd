"""Everything the client raises, in one small tree, and how Triton's statuses become it.

QwenImageClientError
├── InvalidRequest        the client or the server refused a value; a retry won't help
├── RecipeError           a file carries no recipe, or one that can't be read
├── ServerUnreachable     no connection was made, so no work began                          [retried]
├── ServerUnavailable     the server refused the work: queue full, not ready, shutting down  [retried]
├── ConnectionLost        the connection broke after the request was sent
├── Timeout               the deadline passed; the request was cancelled
├── Cancelled             somebody cancelled this request by its id
└── ServerError           any other failure the server reports
"""
# A name says what happened; the common base and the package say that it's an error.
# ruff: noqa: N818

import logging
import re
from typing import ClassVar

_log = logging.getLogger("qwen_image_client")


class QwenImageClientError(Exception):
    """The base of every error raised here.

    Attributes:
        message: what went wrong; the server's own text where it answered.
        request_id: the request it belongs to, or None where no request was sent.
        status: the server's status ("INVALID_ARGUMENT" on gRPC, "400" on HTTP), or None where it gave none.
        retryable: no work had begun, so a retry of the same request is safe.
        work_may_continue: the server may still be busy with the request after this error.
    """

    retryable: ClassVar[bool] = False
    work_may_continue: ClassVar[bool] = False

    def __init__(self, message: str, *, request_id: str | None = None, status: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        self.status = status

    def __str__(self) -> str:
        return self.message if self.request_id is None else f"{self.message} (request {self.request_id})"


class InvalidRequest(QwenImageClientError):
    """A value can't be sent, or the server says it is out of range."""


class RecipeError(QwenImageClientError):
    """A file carries no recipe, or one this version can't read."""


class ServerUnreachable(QwenImageClientError):
    """No connection to the server could be made."""

    retryable = True


class ServerUnavailable(QwenImageClientError):
    """The server refused the request before working on it."""

    retryable = True


class ConnectionLost(QwenImageClientError):
    """The connection broke after the request was sent; the work may have run."""

    work_may_continue = True


class Timeout(QwenImageClientError):
    """The call's deadline passed."""

    work_may_continue = True


class Cancelled(QwenImageClientError):
    """The request was cancelled by its id."""


class ServerError(QwenImageClientError):
    """The server failed in a way that has no class of its own; `status` says which.

    Attributes:
        is_from_model: the message is that of a served model, not Triton's own, which describes its inside.
    """

    is_from_model: bool = False


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
# gRPC reports its own transport's failures as UNAVAILABLE too, which only their messages distinguish.
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
_STATUS_AT_END = re.compile(r" \[([A-Z_]+)\]$")  # how the server ends a message: a stream's errors have no other
_ENSEMBLE_PREFIX = re.compile(r"^in ensemble '[^']*', ")  # about Triton's inside, not the request


def error_from_status(status: str, message: str, request_id: str | None) -> QwenImageClientError:
    """The error for a status the server sent.

    Args:
        status: a gRPC code's name ("UNAVAILABLE") or an HTTP status ("503"); IN_A_STREAM where the message has it.
    """
    text = _ENSEMBLE_PREFIX.sub("", message)
    if stated := _STATUS_AT_END.search(text):
        text = text[: stated.start()]
        status = stated[1] if status == IN_A_STREAM else status
    kind = _BY_STATUS.get(status, ServerError)
    if status == "400" and text == f"request {request_id} was cancelled":
        kind = Cancelled  # an older Triton has no HTTP status for it and falls back to 400
    error = kind(text, request_id=request_id, status=status)
    if isinstance(error, ServerError):
        error.is_from_model = stated is not None
    return error


def error_from_grpc(code: str, details: str, request_id: str | None) -> QwenImageClientError:
    """The error for a failed gRPC call, whether the server or the transport failed it."""
    text = details.lower()
    if code == "UNAVAILABLE" and any(mark in text for mark in _NO_CONNECTION):
        hint = WRONG_PORT_FOR_GRPC if "socket closed" in text else ""  # somebody listens, and hung up at once
        return ServerUnreachable(details + hint, request_id=request_id)
    if code == "UNAVAILABLE" and any(mark in text for mark in _BROKEN_CONNECTION):
        return ConnectionLost(details, request_id=request_id)
    return error_from_status(code, details, request_id)


def should_cancel(error: BaseException) -> bool:
    """Whether the server may still be working: the caller left (Ctrl-C, a closed iterator, a cancelled task)
    or the answer never came."""
    return error.work_may_continue if isinstance(error, QwenImageClientError) else True


def add_cancel_note(reason: BaseException, num_images: int) -> None:
    """Tells whoever reads `reason` that the server's work is over."""
    reason.add_note(f"ended on the server: {num_images} image{'' if num_images == 1 else 's'}")


def add_failed_cancel_note(reason: BaseException, request_id: str, error: QwenImageClientError) -> None:
    """Tells whoever reads `reason`, and the log, that the server may still be working."""
    reason.add_note(f"not ended on the server: {error.message}")
    _log.warning("request %s may still run on the server: %s", request_id, error.message)
