"""When a refused request is sent again: only if no work began, and only while time is left."""

import random
from dataclasses import dataclass

from qwen_image_client.errors import InvalidRequest, QwenImageClientError


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
