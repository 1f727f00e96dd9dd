"""A request's own timeout, as Triton carries it: it counts from the validator on, and the sampler heeds it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from qwen_image.errors import Unavailable

LATEST_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request is to end, done or not."""

    timeout_us: int  # as the caller gave it; 0: none
    passes_at_ns: int  # on the monotonic clock, which all processes of a machine share; 0: never

    @classmethod
    def from_now(cls, timeout_us: int) -> Deadline:
        passes_at_ns = min(time.monotonic_ns() + timeout_us * 1000, LATEST_NS) if timeout_us else 0
        return cls(timeout_us, passes_at_ns)

    def check(self) -> None:
        """Unavailable once it has passed."""
        if self.passes_at_ns and time.monotonic_ns() > self.passes_at_ns:
            raise Unavailable(
                f"timeout={self.timeout_us} microseconds, which the request gave itself, have passed before it was "
                "done; give it more, or ask for fewer steps or a smaller size"
            )
