"""API keys from a file, which is read again when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.error_answers import ErrorResponse
from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.settings import SettingsError

OPEN_PATHS = ("/health", "/health/ready")
_SCHEME = "bearer "
_log = logging.getLogger("qwen_image_gateway")


class Keys:
    """The keys of one file: one a line; blank lines and those that begin with # are none.

    Raises:
        SettingsError: the file can't be read, or holds no key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complaint = ""
        self._read()

    def know(self, key: str) -> bool:
        """Whether it is one of the keys. Takes as long whichever it is, and however much of it is right."""
        self._read_again_if_changed()
        digest = _digest(key)
        return sum([hmac.compare_digest(digest, known) for known in self._digests]) > 0

    def _read(self) -> None:
        try:
            version = _version(self._path)
            lines = self._path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the file of API keys can't be read: {error}") from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise SettingsError(f"the file of API keys, {self._path}, holds none: put one on a line of its own")
        self._digests = [_digest(key) for key in keys]
        self._version, self._complaint = version, ""  # at the end: what could not be read is tried again

    def _read_again_if_changed(self) -> None:
        try:
            if _version(self._path) != self._version:
                self._read()
                _log.info("the API keys were read again: %d", len(self._digests))
        except (OSError, SettingsError) as error:
            if str(error) != self._complaint:  # not with every request
                _log.error("the API keys stay as they were: %s", error)
            self._complaint = str(error)


def _version(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


class KeysAsked:
    """Middleware: nothing but a sign of life is answered to callers without a key."""

    def __init__(self, app: ASGIApp, keys: Keys, retry_after_s: int) -> None:
        self._app = app
        self._keys = keys
        self._retry_after_s = retry_after_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get("authorization", "")
        if sent[: len(_SCHEME)].lower() == _SCHEME and self._keys.know(sent[len(_SCHEME) :].strip()):
            await self._app(scope, receive, send)
        else:
            await ErrorResponse(_refusal(sent), self._retry_after_s)(scope, receive, send)


def _refusal(sent: str) -> ApiError:
    words = "this API key isn't known" if sent else "an API key is needed"
    return ApiError(
        401,
        f"{words}: send the header Authorization: Bearer KEY",
        "invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )
