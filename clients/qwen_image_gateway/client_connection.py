"""A client's side of one request: it may disconnect, and it may not read its response."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import Receive, Send

from qwen_image_gateway.errors import client_disconnected

Result = TypeVar("Result")
CHUNK_BYTES = 256 * 1024


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result. If the connection closes first, the work is cancelled, in Triton too.

    The request's body must have been read.

    Raises:
        ApiError: the client disconnected.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise client_disconnected()
    finally:
        await _cancel(working, watching)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class NotReadError(Exception):
    """The client doesn't read its response. It can't be told: the connection is closed."""


@dataclass(frozen=True, slots=True)
class TimedSend:
    """Sends in chunks and gives the client `timeout_s` to take each: an unread response holds memory, and a place that
    others want."""

    sink: Send
    timeout_s: float

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Returns when everything is out.

        uvicorn buffers whatever it is given and waits only before it is given more. So no message is large, and the
        last one is empty.

        Raises:
            NotReadError: the client didn't take a chunk in time.
        """
        body = message.get("body", b"")
        for start in range(0, len(body), CHUNK_BYTES):
            await self._send_chunk({**message, "body": body[start : start + CHUNK_BYTES], "more_body": True})
        await self._send_chunk({**message, "body": b""} if body else message)

    async def _send_chunk(self, message: MutableMapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                await self.sink(message)
        except TimeoutError as error:
            raise NotReadError from error
