"""A response of server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qwen_image_client import QwenImageClientError, Timeout
from qwen_image_gateway.error_answers import ERROR_CODE, as_api_error, internal_error
from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.events import ErrorEvent, Event
from qwen_image_gateway.leaving import unless_caller_leaves
from qwen_image_gateway.writing import NotReadError

MEDIA_TYPE = "text/event-stream"
_PAUSE = b": the picture is being painted\n\n"
_HEADERS = {"content-type": MEDIA_TYPE, "cache-control": "no-store", "x-accel-buffering": "no"}


class EventResponse(Response):
    """The events as they come. It begins with the first of them, so that what is refused at once still has its HTTP
    status, or after `keep_alive_s`, so that no proxy gives up on a long queue.

    `timeout_s` is the stream's deadline, whether it waits for Triton or for the caller.
    """

    def __init__(self, events: AsyncGenerator[Event | None, None], keep_alive_s: float, timeout_s: float) -> None:
        super().__init__(headers=_HEADERS)
        self._events = events
        self._keep_alive_s = keep_alive_s
        self._timeout_s = timeout_s
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = _Line(send, self.raw_headers)
        try:
            await unless_caller_leaves(receive, self._say_all(line))
        except (ApiError, QwenImageClientError) as error:
            if not line.has_begun:
                raise
            answer = as_api_error(error, scope)
            scope[ERROR_CODE] = answer.code
            await line.say(ErrorEvent.of(answer))
        except NotReadError:
            raise
        except Exception:
            if line.has_begun:
                await line.say(ErrorEvent.of(internal_error()))
                await line.end()
            raise
        await line.end()

    async def _say_all(self, line: _Line) -> None:
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                line.kept_alive(self._keep_alive_s),
                aclosing(self._events) as events,
            ):
                async for event in events:
                    await line.say(event)
        except TimeoutError as error:
            raise Timeout("the stream's deadline passed") from error


@dataclass(slots=True)
class _Line:
    """A response that starts when something is said in it, and when that was last."""

    send: Send
    headers: Sequence[tuple[bytes, bytes]]
    has_begun: bool = False
    said_at_s: float = field(default_factory=time.monotonic)
    _is_broken: bool = False  # something is only half out, and whatever came after it would be read as its other half
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def say(self, event: Event | None) -> None:
        """Nothing is said of a step that has nothing to show, but that the response has begun."""
        if event is not None or not self.has_begun:
            await self._write(b"" if event is None else event.encoded())

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def kept_alive(self, every_s: float) -> AsyncGenerator[None, None]:
        """Comments are sent meanwhile, where nothing else is for so long."""
        beating = asyncio.create_task(self._beat(every_s))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(self.said_at_s + every_s - time.monotonic())
            if time.monotonic() >= self.said_at_s + every_s:
                await self._write(_PAUSE)

    async def _write(self, content: bytes) -> None:
        async with self._turn:
            if self._is_broken:
                raise NotReadError
            if not self.has_begun:
                await self.send({"type": "http.response.start", "status": 200, "headers": self.headers})
                self.has_begun = True
            self._is_broken = True
            await self.send({"type": "http.response.body", "body": content, "more_body": True})
            self._is_broken = False
            self.said_at_s = time.monotonic()
