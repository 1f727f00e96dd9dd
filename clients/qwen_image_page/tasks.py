"""The tasks of each session, one request after the other; the stop button of a session cancels these and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from qwen_image_client import InvalidRequest

Item = TypeVar("Item")


class Stopped(Exception):  # noqa: N818 - it says what happened
    """The user cancelled the request."""


@dataclass(slots=True)
class _Session:
    """One session's tasks in the order of its requests: the first is in progress, the others wait."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class SessionTasks:
    """Belongs to one event loop. Of each session `max_waiting` requests may wait behind the one in progress."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._sessions: dict[str, _Session] = {}

    @asynccontextmanager
    async def run(
        self, session: str, source: AsyncGenerator[Item, None]
    ) -> AsyncIterator[AsyncGenerator[list[Item], None]]:
        """Reads the source once the session's earlier requests are done, and yields its items in batches; see
        `_batches`. Leaving the context cancels the source.

        Raises:
            InvalidRequest: too many requests wait already.
        """
        if self.num_waiting(session) >= self._max_waiting:
            raise InvalidRequest(
                f"{self._max_waiting} requests are waiting, and no more may. Wait until one is done, or press Stop."
            )
        entry = self._sessions.setdefault(session, _Session())
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        task = asyncio.create_task(_pump(source, queue, entry.lock))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        entry.tasks.append(task)
        try:
            yield _batches(task, queue)
        finally:
            entry.tasks.remove(task)
            if not entry.tasks:
                self._sessions.pop(session, None)
            await _cancel([task])

    def is_busy(self, session: str) -> bool:
        return session in self._sessions

    def num_waiting(self, session: str) -> int:
        """Requests of the session behind the one in progress."""
        return len(self._sessions[session].tasks) - 1 if session in self._sessions else 0

    async def cancel(self, session: str) -> None:
        """Cancels the session's requests, on the server too, those that wait included."""
        if session in self._sessions:
            await _cancel(self._sessions[session].tasks)

    async def cancel_all(self) -> None:
        """Cancels the requests of every session."""
        await asyncio.gather(*(self.cancel(session) for session in list(self._sessions)))


async def _pump(source: AsyncGenerator[Item, None], queue: asyncio.Queue[Item | None], lock: asyncio.Lock) -> None:
    async with lock, aclosing(source) as items:
        async for item in items:
            queue.put_nowait(item)


async def _batches(task: asyncio.Task[None], queue: asyncio.Queue[Item | None]) -> AsyncGenerator[list[Item], None]:
    """The items since the last batch, so that a slow reader doesn't fall behind the source.

    Raises:
        Stopped: the task was cancelled from outside.
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


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Returns when they have ended, which is after the SDK has cancelled their requests on the server."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
