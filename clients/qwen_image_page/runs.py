"""Each session's work, one request after the other: what the stop button of one must end, and of no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from qwen_image_client import InvalidRequest

Item = TypeVar("Item")


class Stopped(Exception):  # noqa: N818 - it says what happened
    """The person stopped it."""


@dataclass(slots=True)
class _Session:
    """One session's work, in the order in which it was asked for: the first is in progress, the others wait."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Runs:
    """On one event loop. Of each session `most_waiting` may wait beside the one in progress."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._sessions: dict[str, _Session] = {}

    @asynccontextmanager
    async def started(
        self, session: str, source: AsyncGenerator[Item, None]
    ) -> AsyncIterator[AsyncGenerator[list[Item], None]]:
        """Reads the source when the session's turn comes to it, and gives its items in batches; see `_batches`.
        Leaving ends the source.

        Raises:
            InvalidRequest: as many wait as may.
        """
        if self.waiting(session) >= self._most_waiting:
            raise InvalidRequest(
                f"{self._most_waiting} requests are waiting, and no more may. Wait until one is done, or press Stop."
            )
        work = self._sessions.setdefault(session, _Session())
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        task = asyncio.create_task(_pump(source, queue, work.turn))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        work.tasks.append(task)
        try:
            yield _batches(task, queue)
        finally:
            work.tasks.remove(task)
            if not work.tasks:
                self._sessions.pop(session, None)
            await _ended([task])

    def is_busy(self, session: str) -> bool:
        return session in self._sessions

    def waiting(self, session: str) -> int:
        """Requests of the session behind the one in progress."""
        return len(self._sessions[session].tasks) - 1 if session in self._sessions else 0

    async def stop(self, session: str) -> None:
        """Ends the session's work, on the server too, and what waits."""
        if session in self._sessions:
            await _ended(self._sessions[session].tasks)

    async def stop_all(self) -> None:
        """Ends the work of every session."""
        await asyncio.gather(*(self.stop(session) for session in list(self._sessions)))


async def _pump(source: AsyncGenerator[Item, None], queue: asyncio.Queue[Item | None], turn: asyncio.Lock) -> None:
    async with turn, aclosing(source) as items:
        async for item in items:
            queue.put_nowait(item)


async def _batches(task: asyncio.Task[None], queue: asyncio.Queue[Item | None]) -> AsyncGenerator[list[Item], None]:
    """What came since the last batch: a reader that is slow to show things does not fall behind the source.

    Raises:
        Stopped: the task was ended from outside.
        Exception: whatever the source raises.
    """
    while not task.done() or not queue.empty():
        batch = [await queue.get()]
        while not queue.empty():
            batch.append(queue.get_nowait())
        items = [item for item in batch if item is not None]
        if items:
            yield items
    if task.cancelled():
        raise Stopped
    task.result()


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Returns when they have ended; the SDK ends the server's work before a cancelled task does."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
