"""One moment by which a call, all its attempts included, must be over."""

import time
from dataclasses import dataclass

from qwen_image_client.errors import InvalidRequest


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
