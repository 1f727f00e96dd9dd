"""The work in progress, by session: what the stop button of one must end, and of no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Stopped(Exception):  # noqa: N818 - it says what happened
    """The person stopped it."""


class Runs:
    """On one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def started(
        self, session: str, source: AsyncGenerator[Item, None]
    ) -> AsyncIterator[AsyncGenerator[list[Item], None]]:
        """Reads the source from now on, and gives its items in batches; see `_batches`. Leaving ends the source."""
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        task = asyncio.create_task(_pump(source, queue))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        self._tasks.setdefault(session, set()).add(task)
        try:
            yield _batches(task, queue)
        finally:
            self._tasks[session].discard(task)
            if not self._tasks[session]:
                del self._tasks[session]
            await _ended(task)

    async def stop(self, session: str) -> int:
        """Ends the session's work, on the server too, and counts what it ended."""
        tasks = [task for task in self._tasks.get(session, ()) if not task.done()]
        for task in tasks:
            await _ended(task)
        return len(tasks)

    async def stop_all(self) -> None:
        """Ends the work of every session."""
        for session in list(self._tasks):
            await self.stop(session)


async def _pump(source: AsyncGenerator[Item, None], queue: asyncio.Queue[Item | None]) -> None:
    async with aclosing(source) as items:
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


async def _ended(task: asyncio.Task[None]) -> None:
    """Returns when it has ended; the SDK ends the server's work before a cancelled task does."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
