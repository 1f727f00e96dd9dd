"""Everything the client raises, in one small tree.

QwenImageClientError
├── InvalidRequest        a value is wrong, says the client or the server; sending it again won't help
├── RecipeError           a file carries no recipe, or one that can't be read
├── ServerUnreachable     no connection was made, so no work began                          [retried]
├── ServerUnavailable     the server refused the work: queue full, not ready, shutting down  [retried]
├── ConnectionLost        the connection broke after the request was sent
├── Timeout               the deadline passed; the server's work was ended
├── Cancelled             somebody ended this request by its id
└── ServerError           any other failure the server reports
"""
# A name says what happened; the common base and the package say that it's an error.
# ruff: noqa: N818

from typing import ClassVar


class QwenImageClientError(Exception):
    """The base of every error raised here.

    Attributes:
        message: what went wrong; the server's own words where it answered.
        request_id: the request it belongs to, or None where no request was sent.
        status: the server's status ("INVALID_ARGUMENT" on gRPC, "400" on HTTP), or None where it gave none.
        retryable: no work had begun, so sending the same request again is safe.
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
    """The request was ended by its id."""


class ServerError(QwenImageClientError):
    """The server failed in a way that has no class of its own; `status` says which.

    Attributes:
        is_from_model: the words are those of the models served, not of Triton itself, which tells of its inside.
    """

    is_from_model: bool = False
