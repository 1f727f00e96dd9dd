"""What both clients are made with: the connection, the limits of time, the policy of retries."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qwen_image_client._address import Address, Connection, Protocol
from qwen_image_client._call import Models
from qwen_image_client._errors import InvalidRequest, QwenImageClientError

DEFAULT_TIMEOUT_S = 600.0
CANCEL_TIMEOUT_S = 5.0  # of an abandoned call: its caller is waiting for the error
PROBE_TIMEOUT_S = 5.0
PROBE_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline on the monotonic clock; `at_s` is None where there is none."""

    at_s: float | None

    @classmethod
    def after(cls, timeout_s: float | None) -> "Deadline":
        """The deadline `timeout_s` seconds from now; None means none.

        Raises:
            InvalidRequest: the timeout isn't a positive number.
        """
        if timeout_s is None:
            return cls(None)
        if not timeout_s > 0:
            raise InvalidRequest(f"timeout_s={timeout_s} must be more than 0; None waits without a limit")
        return cls(time.monotonic() + timeout_s)

    def remaining_s(self) -> float | None:
        """Seconds left, at least a millisecond so that it is a valid timeout; None without a deadline."""
        return None if self.at_s is None else max(0.001, self.at_s - time.monotonic())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, so that clients refused together don't return together.

    Attributes:
        retries: attempts after the first; 0 turns retrying off.
        first_delay_s: the longest pause before the second attempt; it doubles with each attempt.
        max_delay_s: the longest pause of all.
    """

    retries: int = 3
    first_delay_s: float = 0.25
    max_delay_s: float = 5.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidRequest(f"retries={self.retries} must be 0 or more")

    def delay_s(self, error: QwenImageClientError, attempt: int, remaining_s: float | None) -> float | None:
        """How long to wait before the next attempt, or None to give up and raise `error`.

        Args:
            attempt: how many attempts have failed, this one included (1 or more).
            remaining_s: what is left of the call's deadline; a pause that would outlast it isn't begun.
        """
        if not error.retryable or attempt > self.retries:
            return None
        longest_s = min(self.max_delay_s, self.first_delay_s * 2.0 ** (attempt - 1))
        delay_s = random.uniform(longest_s / 2, longest_s)
        return delay_s if remaining_s is None or delay_s < remaining_s else None


@dataclass(frozen=True, slots=True)
class Settings:
    """A client's settings, read and checked.

    Attributes:
        timeout_s: the limit of a call that gives none of its own; None is no limit.
    """

    connection: Connection
    models: Models
    retry: RetryPolicy
    timeout_s: float | None

    @classmethod
    def read(
        cls,
        url: str,
        *,
        protocol: Protocol | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = RetryPolicy().retries,
        model: str = Models().generate,
        headers: Mapping[str, str] | None = None,
        root_certificates: str | Path | None = None,
    ) -> "Settings":
        """The settings that a client's arguments mean; see `ClientOptions`.

        Raises:
            InvalidRequest: one of them can't be used.
        """
        certificates = None if root_certificates is None else Path(root_certificates)
        connection = Connection(Address.parse(url, protocol), headers or {}, certificates)
        Deadline.after(timeout_s)
        return cls(connection, Models(model), RetryPolicy(retries), timeout_s)

    def deadline(self, timeout_s: float | None) -> Deadline:
        """The deadline of a call that starts now; None takes the client's own limit."""
        return Deadline.after(self.timeout_s if timeout_s is None else timeout_s)

    @property
    def has_previews(self) -> bool:
        return self.connection.address.protocol == "grpc"

    @property
    def where(self) -> str:
        """The server and its model, for messages."""
        return f"{self.models.generate} on {self.connection.address.host_and_port}"
