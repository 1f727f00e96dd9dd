"""Which of gradio's routes are open, to whom, and for what: gradio has many more, and trusts its callers."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_page.settings import PageSettings
from qwen_image_page.uploads import limit_body, upload
from qwen_image_page.visitors import Refused, Visitors

COOKIE = "qwen_image_page"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")
_API = "/gradio_api"
_OPEN = re.compile(r"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/(assets|static|svelte)/.+")
_OPEN_API = re.compile(r"/(info/?|theme\.css)")
_FILE = f"{_API}/file="
_HEARTBEAT = f"{_API}/heartbeat/"


class GateMiddleware:
    """Stands in front of gradio. Routes that aren't named here are answered 404, and no URL of a caller's is fetched.

    Routes that do work or keep memory are for open sessions, which a cookie ties to one browser.
    """

    def __init__(self, app: ASGIApp, settings: PageSettings, folder: Path) -> None:
        self._app = app
        self._settings = settings
        self._folder = folder.resolve()
        self._visitors = Visitors(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._route(Request(scope, receive), send)
            except Refused as refused:
                await JSONResponse({"detail": str(refused)}, refused.status)(scope, receive, send)

    async def _route(self, request: Request, send: Send) -> None:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        match request.method, path.rstrip("/"):
            case "GET" | "HEAD", _ if _OPEN.fullmatch(path) or _OPEN_API.fullmatch(path.removeprefix(_API)):
                await self._app(request.scope, request.receive, _with_cookie(request, send))
            case "GET" | "HEAD", _ if path.startswith(_FILE):
                _check_own(path.removeprefix(_FILE), self._folder)
                await self._app(request.scope, request.receive, send)
            case "GET", _ if path.startswith(_HEARTBEAT):
                with self._visitors.session(_token_or_refused(request), _name(path.removeprefix(_HEARTBEAT))):
                    await self._app(request.scope, request.receive, send)
            case "GET", "/gradio_api/queue/data":
                await self._visitors.wait_for(_token(request), _name(request.query_params.get("session_hash")))
                await self._app(request.scope, request.receive, send)
            case "POST", "/gradio_api/queue/join" | "/gradio_api/cancel":
                await self._event(request, send)
            case "POST", "/gradio_api/upload":
                answer = await upload(request, self._visitors, _token(request), self._settings, self._folder)
                await answer(request.scope, request.receive, send)
            case _:
                raise Refused(404, f"the page has no {request.method} {path}")

    async def _event(self, request: Request, send: Send) -> None:
        await self._visitors.wait_for(_token(request))
        source = Request(request.scope, limit_body(request, self._settings.max_event_bytes))
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                sent = json.loads(await source.body())
            event = json.dumps(without_urls(sent, self._folder)).encode()
            session = sent["session_hash"]
        except TimeoutError as error:
            raise Refused(408, "the body didn't come in time") from error
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise Refused(400, "the body is no JSON object with a session_hash") from error
        await self._visitors.wait_for(_token(request), _name(session))
        headers = MutableHeaders(scope=request.scope)
        headers["content-length"] = str(len(event))
        await self._app(request.scope, _replay(event, request.receive), send)


def without_urls(value: Any, folder: Path) -> Any:
    """The event without its URLs; a `path` must be a file of the page's own.

    Raises:
        Refused: it is another file.
    """
    if isinstance(value, list):
        return [without_urls(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("path") is not None:
        _check_own(value["path"], folder)
    return {name: without_urls(each, folder) for name, each in value.items() if name != "url"}


def _check_own(path: object, folder: Path) -> None:
    try:
        is_own = isinstance(path, str) and Path(path).is_absolute() and Path(path).resolve().is_relative_to(folder)
    except (ValueError, OSError, RuntimeError):  # a zero byte, a name too long, links in a ring
        is_own = False
    if not is_own:
        raise Refused(403, "a file must be one that was uploaded here or made by the page; no URL is fetched")


def _token(request: Request) -> str | None:
    token = request.cookies.get(COOKIE, "")
    return token if _TOKEN.fullmatch(token) else None


def _token_or_refused(request: Request) -> str:
    if (token := _token(request)) is None:
        raise Refused(403, "the page needs its cookie: open it in a browser that takes cookies")
    return token


def _name(session: object) -> str:
    if not isinstance(session, str) or re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session) is None:
        raise Refused(400, "session_hash must be 1 to 64 letters, digits, _ or -")
    return session


def _with_cookie(request: Request, send: Send) -> Send:
    """Sets the cookie: scripts can't read it, and pages of other sites can't send it."""

    async def send_with_cookie(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and _token(request) is None:
            cookie = f"{COOKIE}={secrets.token_urlsafe(24)}; Path=/; HttpOnly; SameSite=Strict"
            MutableHeaders(scope=message).append("set-cookie", cookie)
        await send(message)

    return send_with_cookie


def _replay(body: bytes, receive: Receive) -> Receive:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return receive_again
