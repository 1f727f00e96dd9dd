"""The limits on image requests: how many at a time, until their responses are read, and how large each body may be.
What is over a limit is answered at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.client_connection import NotReadError, TimedSend
from qwen_image_gateway.errors import ERROR_CODE, ApiError, ErrorResponse, response_not_read
from qwen_image_gateway.schemas import CHAT, EDITS, GENERATIONS
from qwen_image_gateway.settings import GatewaySettings

DRAIN_S = 5.0  # for reading a body that is refused
DRAIN_PAUSE_S = 0.5  # the longest wait for the next part of it


class ConcurrencyLimitMiddleware:
    """Stands around the image routes, before a body is read."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._settings = settings
        with_images = dict.fromkeys((EDITS, CHAT), settings.max_upload_bytes)
        self._max_body_bytes = {GENERATIONS: settings.max_json_bytes, **with_images}
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._max_body_bytes or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = _LimitedBody(
            receive, self._max_body_bytes[scope["path"]], time.monotonic() + self._settings.body_timeout_s
        )
        try:
            self._check_capacity()
            body.check_content_length(Headers(scope=scope).get("content-length"))
        except ApiError as error:
            await body.drain(Headers(scope=scope))
            await ErrorResponse(error, self._settings.retry_after_s)(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, body.receive, TimedSend(send, self._settings.write_timeout_s).send)
        except NotReadError:
            scope[ERROR_CODE] = response_not_read().code
        finally:
            self._in_flight -= 1

    def _check_capacity(self) -> None:
        if self._in_flight >= self._settings.max_requests:
            raise ApiError(
                429,
                f"{self._in_flight} requests are in work, as many as are taken: send it again later",
                "gateway_busy",
            )


@dataclass(slots=True)
class _LimitedBody:
    """A request's body, counted and timed while it is read: a slow one holds a place that others want."""

    source: Receive
    max_bytes: int
    until_s: float
    read_bytes: int = 0
    is_read: bool = False

    def check_content_length(self, length: str | None) -> None:
        if length is not None and int(length) > self.max_bytes:
            raise self._too_large()

    async def receive(self) -> Any:
        message = await (self.source() if self.is_read else self._receive_in_time())
        self.read_bytes += len(message.get("body", b""))
        self.is_read = not message.get("more_body", False)
        if self.read_bytes > self.max_bytes:
            raise self._too_large()
        return message

    async def drain(self, headers: Headers) -> None:
        """Reads the rest of the body: most clients read a response only after sending all, and lose it otherwise.

        Not for long, and not from a client that asks before sending (`Expect: 100-continue`).
        """
        if "expect" in headers:
            return
        until_s = time.monotonic() + DRAIN_S
        with suppress(TimeoutError):
            while (left_s := until_s - time.monotonic()) > 0:
                message = await asyncio.wait_for(self.source(), min(left_s, DRAIN_PAUSE_S))
                if not message.get("more_body", False):
                    return

    async def _receive_in_time(self) -> Any:
        try:
            return await asyncio.wait_for(self.source(), self.until_s - time.monotonic())
        except TimeoutError as error:
            raise ApiError(408, "the body didn't come in time", "body_too_slow") from error

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is over {self.max_bytes} bytes, which is as much as is taken", "body_too_large")
