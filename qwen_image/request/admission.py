"""How many images are denoised at a time, how many may wait for a place, and who is refused.

Triton's own queue limits are not used for this: with a queue policy its dynamic batcher hands work over only while an
instance waits for it, and when it looks a moment too early it sleeps half a second (measured on 2.51).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from qwen_image.errors import Unavailable

LOOK_EVERY_S = 0.05  # how soon one that waits notices that nobody wants it any more


@dataclass(slots=True, eq=False)
class _Turn:
    images: int
    called: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Admission:
    """Places for `max_in_flight` images; `max_waiting` more wait, first come first served. Lives on one event loop.

    `on_waiting` is told how many images more wait, or fewer.
    """

    max_in_flight: int
    max_waiting: int
    on_waiting: Callable[[int], None] = lambda change: None
    in_flight: int = 0
    waiting: int = 0
    _queue: deque[_Turn] = field(default_factory=deque)

    @asynccontextmanager
    async def place(self, images: int, check_wanted: Callable[[], None]) -> AsyncIterator[None]:
        """Hold places for a request's images. Unavailable at once if the queue is full.

        `check_wanted` raises once the request need not be served; then it leaves the queue. A request has its places
        together, so one of many images may exceed the limit by what it has more than the places that are left.
        """
        if self.in_flight >= self.max_in_flight or self._queue:
            await self._wait(_Turn(images), check_wanted)
        else:
            self.in_flight += images
        try:
            yield
        finally:
            self._leave(images)

    async def _wait(self, turn: _Turn, check_wanted: Callable[[], None]) -> None:
        if self.waiting + turn.images > self.max_waiting:
            raise Unavailable(
                f"the queue is full: {self.in_flight} images are in flight and {self.waiting} wait, at most "
                f"{self.max_waiting} may; send the request again later"
            )
        self._queue.append(turn)
        self._count_waiting(turn.images)
        try:
            while not turn.called.is_set():
                check_wanted()
                with suppress(TimeoutError):
                    await asyncio.wait_for(turn.called.wait(), LOOK_EVERY_S)
        except BaseException:
            if turn.called.is_set():  # at the very moment it gave up
                self._leave(turn.images)
            else:
                self._queue.remove(turn)
            raise
        finally:
            self._count_waiting(-turn.images)

    def _count_waiting(self, change: int) -> None:
        self.waiting += change
        self.on_waiting(change)

    def _leave(self, images: int) -> None:
        self.in_flight -= images
        while self._queue and self.in_flight < self.max_in_flight:
            turn = self._queue.popleft()
            self.in_flight += turn.images
            turn.called.set()
