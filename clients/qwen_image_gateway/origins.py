"""Which web pages a browser may send requests from, and under which names the gateway may be asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.error_answers import ErrorResponse
from qwen_image_gateway.errors import ApiError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE = ("GET", "HEAD", "OPTIONS")
_OPEN_PATHS = ("/health", "/health/ready")


def hosts_for(address: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """The names to be asked under: those that are given, or else loopback's where only that is listened on, or all.

    A page of any site can have its name lead to 127.0.0.1, and is then of the gateway's own origin.
    """
    if allowed:
        return tuple(allowed)
    try:
        is_loopback = address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_loopback = False
    return tuple(dict.fromkeys((*LOOPBACK, address))) if is_loopback else ("*",)


class SameOrigin:
    """Middleware: refuses what a browser sends from another site's page, and what is sent to another host's name.

    A form needs no leave from the server to be sent to it, so it is not enough to keep the answer from its page.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str], retry_after_s: int = 1) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)
        self._retry_after_s = retry_after_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await ErrorResponse(refusal, self._retry_after_s)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if "*" not in self._hosts and scope["path"] not in _OPEN_PATHS and _name(host) not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            words = f"the host {_name(host)!r} isn't one of {allowed}: --allowed-host adds one"
            return ApiError(403, words, "host_not_allowed", headers={"connection": "close"})
        origin = headers.get("origin")
        if scope["method"] in _SAFE or {"*", origin} & self._origins or _is_own(headers, origin, host):
            return None
        words = f"a page of {origin or 'another site'} may not send this: --cors-origin allows its origin"
        return ApiError(403, words, "cross_origin", headers={"connection": "close"})


def _is_own(headers: Headers, origin: str | None, host: str) -> bool:
    """What the browser says of it, which holds behind a proxy too; older ones name the page's origin alone."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
