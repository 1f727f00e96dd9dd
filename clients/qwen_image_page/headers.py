"""The headers of every response of the page: they keep the browser from fetching anything from elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

_LOCAL_ONLY = (
    (b"content-security-policy", b"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


class LocalOnlyMiddleware:
    """Every response tells the browser to stay on this host, whatever gradio's pages link to.

    An upload that the browser cancels, as the mask brush does when another stroke follows, is no error.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_LOCAL_ONLY]
            await send(message)

        with contextlib.suppress(ClientDisconnect):
            await self._app(scope, receive, send_with_headers)
