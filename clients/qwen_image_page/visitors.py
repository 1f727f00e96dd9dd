"""The page's visitors and their uploads: bounded, and removed soon after the visitor has left.

A visitor is a browser, known by a cookie; each of its tabs is a session, open as long as its heartbeat is.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from qwen_image_page.settings import PageSettings

_POLL_S = 0.05


class Refused(Exception):  # noqa: N818 - it says what happened
    """The page refuses a request.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Visitor:
    """One browser: its folder, its open sessions, and its uploads, the oldest first, with their bytes."""

    name: str = field(default_factory=lambda: secrets.token_hex(8))
    sessions: Counter[str] = field(default_factory=Counter)
    uploads: dict[Path, int] = field(default_factory=dict)
    uploading: int = 0

    @property
    def uploaded_bytes(self) -> int:
        return sum(self.uploads.values())

    def remove_oldest_upload(self) -> None:
        self._remove(next(iter(self.uploads)))

    def remove_uploads(self) -> None:
        for path in list(self.uploads):
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Each upload has a folder of its own, in the visitor's."""
        del self.uploads[path]
        shutil.rmtree(path.parent, ignore_errors=True)
        with suppress(OSError):  # it holds other uploads
            path.parent.parent.rmdir()


class Visitors:
    """All visitors of one page, on one event loop. Nothing is kept of a caller without an open session."""

    def __init__(self, settings: PageSettings) -> None:
        self._settings = settings
        self._by_token: dict[str, Visitor] = {}

    @contextmanager
    def session(self, token: str, name: str) -> Iterator[None]:
        """Keeps the session open; the visitor's uploads are removed a while after its last session has closed.

        Raises:
            Refused: there are too many visitors, or too many sessions of this one.
        """
        visitor = self._by_token.get(token)
        if visitor is None and len(self._by_token) >= self._settings.max_visitors:
            raise Refused(503, f"{self._settings.max_visitors} visitors are here, as many as are let in: come again")
        if visitor is not None and visitor.sessions.total() >= self._settings.max_visitor_sessions:
            raise Refused(429, f"{self._settings.max_visitor_sessions} tabs are open, as many as may be: close one")
        visitor = self._by_token.setdefault(token, Visitor())
        visitor.sessions[name] += 1
        try:
            yield
        finally:
            visitor.sessions -= Counter([name])
            asyncio.get_running_loop().call_later(self._settings.leave_s, self._remove_if_gone, token)

    async def wait_for(self, token: str | None, name: str | None = None) -> Visitor:
        """The visitor, once the session `name` is open: a browser may send a request before its heartbeat.

        Raises:
            Refused: the session wasn't opened in time.
        """
        until_s = asyncio.get_running_loop().time() + self._settings.heartbeat_wait_s
        while token is not None:
            visitor = self._by_token.get(token)
            if visitor is not None and visitor.sessions and (name is None or name in visitor.sessions):
                return visitor
            if asyncio.get_running_loop().time() > until_s:
                break
            await asyncio.sleep(_POLL_S)
        raise Refused(403, "this is for an open page: open it in a browser, with cookies allowed, or load it again")

    @contextmanager
    def uploading(self, visitor: Visitor) -> Iterator[None]:
        """Counts one upload while it is received.

        Raises:
            Refused: there are too many.
        """
        if visitor.uploading >= self._settings.max_visitor_uploads_at_once:
            raise Refused(429, f"{visitor.uploading} uploads are on their way, as many as may be: wait for one")
        visitor.uploading += 1
        try:
            yield
        finally:
            visitor.uploading -= 1

    def make_room(self, visitor: Visitor, arriving_bytes: int) -> None:
        """Makes room for one more upload by removing the visitor's oldest.

        Raises:
            Refused: the uploads of all visitors are too many bytes.
        """
        settings = self._settings
        while visitor.uploads and (
            len(visitor.uploads) >= settings.max_visitor_files
            or visitor.uploaded_bytes + arriving_bytes > settings.max_visitor_bytes
        ):
            visitor.remove_oldest_upload()
        held = sum(each.uploaded_bytes for each in self._by_token.values())
        if held + arriving_bytes > settings.max_uploaded_bytes:
            raise Refused(503, f"{held} bytes of uploads are held for all visitors, as many as may be: send it later")

    def _remove_if_gone(self, token: str) -> None:
        visitor = self._by_token.get(token)
        if visitor is None or visitor.sessions:
            return
        if visitor.uploading:
            asyncio.get_running_loop().call_later(self._settings.leave_s, self._remove_if_gone, token)
            return
        visitor.remove_uploads()
        del self._by_token[token]
