"""Who may send requests: callers with an API key, browsers on pages of allowed origins, under allowed host names."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.errors import ApiError, ErrorResponse
from qwen_image_gateway.schemas import HEALTH_PATHS
from qwen_image_gateway.settings import SettingsError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SCHEME = "bearer "
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_log = logging.getLogger("qwen_image_gateway")


class ApiKeys:
    """The keys in a file, which is read again when it changes: one a line; blank lines and lines with # don't count.

    Raises:
        SettingsError: the file can't be read, or holds no key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged_error = ""
        self._read()

    def is_valid(self, key: str) -> bool:
        """Whether it is one of the keys. Takes as long for every key, whatever part of it is right."""
        self._read_if_changed()
        digest = _digest(key)
        return sum([hmac.compare_digest(digest, known) for known in self._digests]) > 0

    def _read(self) -> None:
        try:
            version = _file_version(self._path)
            lines = self._path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the file of API keys can't be read: {error}") from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise SettingsError(f"the file of API keys, {self._path}, holds none: put one on a line of its own")
        self._digests = [_digest(key) for key in keys]
        self._version, self._logged_error = version, ""  # last, so that a file that can't be read is tried again

    def _read_if_changed(self) -> None:
        try:
            if _file_version(self._path) != self._version:
                self._read()
                _log.info("the API keys were read again: %d", len(self._digests))
        except (OSError, SettingsError) as error:
            if str(error) != self._logged_error:  # not with every request
                _log.error("the API keys stay as they were: %s", error)
            self._logged_error = str(error)


def _file_version(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


class ApiKeyMiddleware:
    """Answers 401 to requests without a valid key, except for health checks."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, retry_after_s: int) -> None:
        self._app = app
        self._keys = keys
        self._retry_after_s = retry_after_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get("authorization", "")
        if sent[: len(_SCHEME)].lower() == _SCHEME and self._keys.is_valid(sent[len(_SCHEME) :].strip()):
            await self._app(scope, receive, send)
        else:
            await ErrorResponse(_unauthorized(sent), self._retry_after_s)(scope, receive, send)


def _unauthorized(sent: str) -> ApiError:
    reason = "this API key isn't known" if sent else "an API key is needed"
    return ApiError(
        401,
        f"{reason}: send the header Authorization: Bearer KEY",
        "invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


def allowed_hosts_for(address: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """The host names to accept: `allowed` if any, else loopback's if only loopback is listened on, else all.

    Any site can point its own name to 127.0.0.1; its pages would then be of the gateway's origin.
    """
    if allowed:
        return tuple(allowed)
    try:
        is_loopback = address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_loopback = False
    return tuple(dict.fromkeys((*LOOPBACK, address))) if is_loopback else ("*",)


class SameOriginMiddleware:
    """Answers 403 to what a browser sends from another site's page, and to requests for another host's name.

    A browser sends a form to another site without a preflight, so CORS, which only hides the response, isn't enough.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str], retry_after_s: int = 1) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)
        self._retry_after_s = retry_after_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._find_error(scope) if scope["type"] == "http" else None
        if error is None:
            await self._app(scope, receive, send)
        else:
            await ErrorResponse(error, self._retry_after_s)(scope, receive, send)

    def _find_error(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if "*" not in self._hosts and scope["path"] not in HEALTH_PATHS and _host_name(host) not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            message = f"the host {_host_name(host)!r} isn't one of {allowed}: --allowed-host adds one"
            return ApiError(403, message, "host_not_allowed", headers={"connection": "close"})
        origin = headers.get("origin")
        if scope["method"] in _SAFE_METHODS or {"*", origin} & self._origins or _is_same_origin(headers, origin, host):
            return None
        message = f"a page of {origin or 'another site'} may not send this: --cors-origin allows its origin"
        return ApiError(403, message, "cross_origin", headers={"connection": "close"})


def _is_same_origin(headers: Headers, origin: str | None, host: str) -> bool:
    """`sec-fetch-site` holds behind a proxy, too; older browsers send the page's origin alone."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
