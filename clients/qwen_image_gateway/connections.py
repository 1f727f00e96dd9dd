"""Connections: how many there may be, and how long their headers may take. uvicorn has no such limits of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

SAME_LINE_S = 10.0
_MAX_LINES = 256  # remembered; some hold an object's address
_LOGGERS = ("uvicorn.error", "asyncio", __name__)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Connections:
    """Those of one process. At a limit the one that has waited longest for a request's headers gives way, so that
    callers who send nothing keep nobody out; where all have a request in work, the new one is closed.

    Attributes:
        header_s: how long a request's headers may take.
        most, most_of_address: connections at one time, and those from one address.
    """

    header_s: float = 10.0
    most: int = 512
    most_of_address: int = 256
    by_address: Counter[str] = field(default_factory=Counter)
    waiting: dict[_Limited, None] = field(default_factory=dict)  # for headers, the longest first

    def let_in(self, new: _Limited) -> None:
        self.by_address[new.address] += 1
        if self.by_address[new.address] > self.most_of_address:
            self._make_way(new, [each for each in self.waiting if each.address == new.address])
        elif self.by_address.total() > self.most:
            self._make_way(new, list(self.waiting))
        if not new.transport.is_closing():
            new.wait_for_headers()

    def _make_way(self, new: _Limited, waiting: list[_Limited]) -> None:
        _log.warning("a connection was closed: there are as many as may be")
        (waiting[0] if waiting else new).close()

    def forget(self, gone: _Limited) -> None:
        self.by_address -= Counter([gone.address])


class _Limited(H11Protocol):
    """uvicorn's, within the limits of its process."""

    all: Connections
    address = ""
    _until: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.all.let_in(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._until is None and not self.transport.is_closing():
            self.wait_for_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self._until is None and not self.transport.is_closing():
            self.wait_for_headers()  # of the next request; one that keeps alive gives way, too

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.all.forget(self)
        super().connection_lost(exc)

    def wait_for_headers(self) -> None:
        self.all.waiting[self] = None
        self._until = self.loop.call_later(self.all.header_s, self._too_slow)

    def close(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def _too_slow(self) -> None:
        _log.warning("a connection was closed: no request's headers came in time")
        self.close()

    def _stop_waiting(self) -> None:
        self.all.waiting.pop(self, None)
        if self._until is not None:
            self._until.cancel()
            self._until = None


class SameLineRarely(logging.Filter):
    """Lets a line pass once in a while and counts the rest, so that callers can't fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, tuple[float, int]] = {}  # when, and how many were held back since

    def filter(self, record: logging.LogRecord) -> bool:
        line, now_s = str(record.msg), time.monotonic()
        if len(self._passed) > _MAX_LINES:
            self._passed.clear()
        passed_s, held_back = self._passed.get(line, (-SAME_LINE_S, 0))
        if now_s - passed_s < SAME_LINE_S:
            self._passed[line] = (passed_s, held_back + 1)
            return False
        self._passed[line] = (now_s, 0)
        if held_back:
            record.msg = f"{line} (and {held_back} times more since it was last said)"
        return True


class _Server(uvicorn.Server):
    """uvicorn's, which says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                _log.info("listens on http://%s:%d", f"[{host}]" if ":" in host else host, port)


def serve(app: Any, host: str, port: int, *, stop_s: int, connections: Connections) -> None:
    """Serves until Ctrl-C or SIGTERM; requests in work are finished first, for `stop_s` seconds at most.

    Raises:
        SystemExit: it can't listen there.
    """
    rarely = SameLineRarely()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(rarely)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=type("Limited", (_Limited,), {"all": connections}),  # h11: the same wherever it runs
        ws="none",
        loop="asyncio",
        access_log=False,  # ours has the request's id
        log_level="warning",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=stop_s,
    )
    server = _Server(config)
    server.run()
    if not server.started:
        raise SystemExit(3)
