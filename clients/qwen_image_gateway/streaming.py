"""A response of server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qwen_image_client.errors import QwenImageClientError
from qwen_image_gateway.error_answers import ERROR_CODE
from qwen_image_gateway.errors import ApiError, error_from_client
from qwen_image_gateway.events import ErrorEvent, Event
from qwen_image_gateway.leaving import unless_caller_leaves

MEDIA_TYPE = "text/event-stream"
_PAUSE = b": the picture is being painted\n\n"
_HEADERS = {"content-type": MEDIA_TYPE, "cache-control": "no-store", "x-accel-buffering": "no"}


class EventResponse(Response):
    """The events as they come. It begins after the first step, so that a refusal still has its HTTP status."""

    def __init__(self, events: AsyncGenerator[Event | None, None], keep_alive_s: float) -> None:
        super().__init__(headers=_HEADERS)
        self._events = events
        self._keep_alive_s = keep_alive_s
        self._has_begun = False
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_caller_leaves(receive, self._send(scope, send))
        except ApiError as error:
            if not self._has_begun:
                raise
            scope[ERROR_CODE] = error.code  # there is nobody left to tell

    async def _send(self, scope: Scope, send: Send) -> None:
        async with aclosing(self._events) as events:
            first = await anext(events)
            self._has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with _Line(send).kept_alive(self._keep_alive_s) as line:
                try:
                    await line.say(first)
                    async for event in events:
                        await line.say(event)
                except QwenImageClientError as error:
                    answer = error_from_client(error)
                    scope[ERROR_CODE] = answer.code
                    await line.say(ErrorEvent.of(answer))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@dataclass(slots=True)
class _Line:
    """A started response, and when something was last said in it."""

    send: Send
    said_at_s: float = field(default_factory=time.monotonic)

    async def say(self, event: Event | None) -> None:
        if event is not None:
            await self._write(event.encoded())

    @asynccontextmanager
    async def kept_alive(self, every_s: float) -> AsyncGenerator[_Line, None]:
        """Comments are sent meanwhile, where nothing else is for so long."""
        beating = asyncio.create_task(self._beat(every_s))
        try:
            yield self
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(self.said_at_s + every_s - time.monotonic())
            if time.monotonic() >= self.said_at_s + every_s:
                await self._write(_PAUSE)

    async def _write(self, content: bytes) -> None:
        self.said_at_s = time.monotonic()
        await self.send({"type": "http.response.body", "body": content, "more_body": True})
