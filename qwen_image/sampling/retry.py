"""Trying a step of an image again after it failed: its latents are with the sampler, so nothing is lost but time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from qwen_image.errors import InvalidRequest, QwenImageError, Unavailable

PAUSES_S = (0.0, 0.5, 1.0)  # before each further try
RETRY_WITHIN_S = 10.0  # of the first failure; a try that has begun is not ended
FINAL = (InvalidRequest, Unavailable)  # what would fail again, now at least

ResultT = TypeVar("ResultT")


async def retry(
    attempt: Callable[[], Awaitable[ResultT]],
    check_wanted: Callable[[], None],
    *,
    pauses_s: Sequence[float] = PAUSES_S,
    within_s: float = RETRY_WITHIN_S,
) -> ResultT:
    """The result of `attempt`, or its last error. `check_wanted` raises once nobody waits for it any more."""
    give_up_at: float | None = None
    for pause_s in pauses_s:
        try:
            return await attempt()
        except FINAL:
            raise
        except QwenImageError:
            now = time.monotonic()
            give_up_at = now + within_s if give_up_at is None else give_up_at
            if now >= give_up_at:
                raise
        await asyncio.sleep(pause_s)
        check_wanted()
    return await attempt()
