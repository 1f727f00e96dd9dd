"""How many requests are in work at a time, until their answers are read, and how much each may send. What is over a
limit is told so at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.error_answers import ERROR_CODE, ErrorResponse
from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.leaving import not_read
from qwen_image_gateway.settings import GatewaySettings
from qwen_image_gateway.writing import NotReadError, Writing

GENERATIONS = "/v1/images/generations"
EDITS = "/v1/images/edits"
CHAT = "/v1/chat/completions"
DISCARD_S = 5.0  # for reading what nobody will look at
PAUSE_S = 0.5  # the longest wait for the next part of it


class Limits:
    """Middleware around the routes that paint; it stands before a body is read."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._settings = settings
        with_pictures = dict.fromkeys((EDITS, CHAT), settings.max_upload_bytes)
        self._body_bytes = {GENERATIONS: settings.max_json_bytes, **with_pictures}
        self._in_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._body_bytes or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._body_bytes[scope["path"]], time.monotonic() + self._settings.body_timeout_s)
        try:
            self._check_room()
            body.check_announced(Headers(scope=scope).get("content-length"))
        except ApiError as error:
            await body.discard(Headers(scope=scope))
            await ErrorResponse(error, self._settings.retry_after_s)(scope, receive, send)
            return
        self._in_work += 1
        try:
            await self._app(scope, body.receive, Writing(send, self._settings.write_timeout_s).send)
        except NotReadError:
            scope[ERROR_CODE] = not_read().code
        finally:
            self._in_work -= 1

    def _check_room(self) -> None:
        if self._in_work >= self._settings.max_requests:
            raise ApiError(
                429, f"{self._in_work} requests are in work, as many as are taken: send it again later", "gateway_busy"
            )


@dataclass(slots=True)
class _Body:
    """A request's body, counted and timed while it is read: a slow one holds a place that others want."""

    source: Receive
    max_bytes: int
    until_s: float
    read_bytes: int = 0
    is_read: bool = False

    def check_announced(self, length: str | None) -> None:
        if length is not None and int(length) > self.max_bytes:
            raise self._too_large()

    async def receive(self) -> Any:
        message = await (self.source() if self.is_read else self._in_time())
        self.read_bytes += len(message.get("body", b""))
        self.is_read = not message.get("more_body", False)
        if self.read_bytes > self.max_bytes:
            raise self._too_large()
        return message

    async def discard(self, headers: Headers) -> None:
        """Read on what is on its way: most callers look at an answer only when all is sent, and lose it otherwise.

        Not for long, and not from one who asks before sending (`Expect: 100-continue`).
        """
        if "expect" in headers:
            return
        until_s = time.monotonic() + DISCARD_S
        with suppress(TimeoutError):
            while (left_s := until_s - time.monotonic()) > 0:
                message = await asyncio.wait_for(self.source(), min(left_s, PAUSE_S))
                if not message.get("more_body", False):
                    return

    async def _in_time(self) -> Any:
        try:
            return await asyncio.wait_for(self.source(), self.until_s - time.monotonic())
        except TimeoutError as error:
            raise ApiError(408, "the body didn't come in time", "body_too_slow") from error

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is over {self.max_bytes} bytes, which is as much as is taken", "body_too_large")
