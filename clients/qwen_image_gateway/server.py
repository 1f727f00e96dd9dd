"""The HTTP server: uvicorn with limits that it lacks, on the number of connections and the time for headers."""

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

from qwen_image_gateway.settings import GatewaySettings

REPEAT_AFTER_S = 10.0
_MAX_LINES = 256  # remembered; some lines hold an object's address
_LOGGERS = ("uvicorn.error", "asyncio", __name__)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Connections:
    """The open connections of one process.

    Beyond a limit the connection that has waited longest for a request's headers is closed, so that clients who send
    nothing keep nobody out. If every connection has a request in flight, the new one is closed.

    Attributes:
        header_timeout_s: for the client to send a request's headers.
        max_total, max_per_address: connections at one time, in all and from one address.
    """

    header_timeout_s: float
    max_total: int
    max_per_address: int
    by_address: Counter[str] = field(default_factory=Counter)
    waiting: dict[_LimitedProtocol, None] = field(default_factory=dict)  # for headers, the longest first

    @classmethod
    def from_settings(cls, settings: GatewaySettings) -> Connections:
        return cls(settings.header_timeout_s, settings.max_connections, settings.max_connections_of_address)

    def add(self, new: _LimitedProtocol) -> None:
        self.by_address[new.address] += 1
        if self.by_address[new.address] > self.max_per_address:
            self._close_one(new, [each for each in self.waiting if each.address == new.address])
        elif self.by_address.total() > self.max_total:
            self._close_one(new, list(self.waiting))
        if not new.transport.is_closing():
            new.wait_for_headers()

    def _close_one(self, new: _LimitedProtocol, waiting: list[_LimitedProtocol]) -> None:
        _log.warning("a connection was closed: there are as many as may be")
        (waiting[0] if waiting else new).close()

    def remove(self, closed: _LimitedProtocol) -> None:
        self.by_address -= Counter([closed.address])


class _LimitedProtocol(H11Protocol):
    """uvicorn's connection, counted and timed by the `Connections` of its process."""

    pool: Connections
    address = ""
    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.pool.add(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._header_timer is None and not self.transport.is_closing():
            self.wait_for_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self._header_timer is None and not self.transport.is_closing():
            self.wait_for_headers()  # of the next request: a kept-alive connection may be closed for a new one, too

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.pool.remove(self)
        super().connection_lost(exc)

    def wait_for_headers(self) -> None:
        self.pool.waiting[self] = None
        self._header_timer = self.loop.call_later(self.pool.header_timeout_s, self._close_late)

    def close(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def _close_late(self) -> None:
        _log.warning("a connection was closed: no request's headers came in time")
        self.close()

    def _stop_waiting(self) -> None:
        self.pool.waiting.pop(self, None)
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class RepeatedLineFilter(logging.Filter):
    """Passes the same line once in `REPEAT_AFTER_S` and counts the others, so that clients can't fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, tuple[float, int]] = {}  # when, and how many were dropped since

    def filter(self, record: logging.LogRecord) -> bool:
        line, now_s = str(record.msg), time.monotonic()
        if len(self._passed) > _MAX_LINES:
            self._passed.clear()
        passed_s, dropped = self._passed.get(line, (-REPEAT_AFTER_S, 0))
        if now_s - passed_s < REPEAT_AFTER_S:
            self._passed[line] = (passed_s, dropped + 1)
            return False
        self._passed[line] = (now_s, 0)
        if dropped:
            record.msg = f"{line} (and {dropped} times more since it was last said)"
        return True


class _Server(uvicorn.Server):
    """uvicorn's server, which logs where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                _log.info("listens on http://%s:%d", f"[{host}]" if ":" in host else host, port)


def serve(app: Any, host: str, port: int, *, stop_s: int, connections: Connections) -> None:
    """Serves until Ctrl-C or SIGTERM; requests in flight are finished first, within `stop_s` seconds.

    Raises:
        SystemExit: it can't listen there.
    """
    repeated = RepeatedLineFilter()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(repeated)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=type("Limited", (_LimitedProtocol,), {"pool": connections}),  # h11: it is pure Python
        ws="none",
        loop="asyncio",
        access_log=False,  # the request log has the request's id
        log_level="warning",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=stop_s,
    )
    server = _Server(config)
    server.run()
    if not server.started:
        raise SystemExit(3)
