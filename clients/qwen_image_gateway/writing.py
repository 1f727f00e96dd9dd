"""An answer on its way out: whoever doesn't read it holds memory, and a place that others want."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.types import Send

PIECE_BYTES = 256 * 1024


class NotReadError(Exception):
    """The caller doesn't read its answer. Nobody can be told: the connection is closed."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Sends in pieces, each with its own time to be taken."""

    sink: Send
    timeout_s: float

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Returns when all of it is out. The server keeps what it is given, however much, and waits only before it is
        given more: so nothing large is given at once, and nothing comes last.

        Raises:
            NotReadError: a piece wasn't taken in time.
        """
        body = message.get("body", b"")
        for start in range(0, len(body), PIECE_BYTES):
            await self._in_time({**message, "body": body[start : start + PIECE_BYTES], "more_body": True})
        await self._in_time({**message, "body": b""} if body else message)

    async def _in_time(self, message: MutableMapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                await self.sink(message)
        except TimeoutError as error:
            raise NotReadError from error
