"""What is recorded of every request: its id, a line in the log, and the metrics."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from qwen_image_gateway.errors import (
    CLIENT_CLOSED_REQUEST,
    ERROR_CODE,
    ERROR_PARAM,
    ApiError,
    ErrorResponse,
    internal_error,
)
from qwen_image_gateway.schemas import HEALTH_PATHS, METRICS
from qwen_image_gateway.telemetry import PROPAGATOR, GatewayMetrics, method_label, route_label

REQUEST_ID = "x-request-id"  # the header, and the key of the ASGI scope
REQUEST_ID_PATTERN = r"[A-Za-z0-9._:/=+@-]{1,128}"
USER = "qwen_image_gateway.user"  # key of the ASGI scope: the request's field `user`
_UNLOGGED_PATHS = (*HEALTH_PATHS, METRICS)
_MAX_SHOWN = 60  # characters of a field's name, which may be any that a caller sends
_log = logging.getLogger("qwen_image_gateway")


class RequestLogMiddleware:
    """Stands around all other middleware. A bug of ours is logged with its traceback and answered 500."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics, retry_after_s: int, log_addresses: bool = False) -> None:
        self._app = app
        self._metrics = metrics
        self._retry_after_s = retry_after_s
        self._log_addresses = log_addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        probe = _ResponseProbe(scope, send)
        with self._metrics.in_flight.labels(route_label(scope["path"])).track_inprogress(), _join_callers_trace(scope):
            try:
                await self._respond(probe, scope, receive)
            except Exception:
                _log.exception("request %s failed", probe.request_id)
                error = internal_error()
                scope[ERROR_CODE] = error.code
                if probe.status is None:
                    await ErrorResponse(error, self._retry_after_s)(scope, receive, probe.send)
            finally:
                self._record(probe, scope)

    async def _respond(self, probe: _ResponseProbe, scope: Scope, receive: Receive) -> None:
        if probe.id_error is not None:
            await ErrorResponse(probe.id_error, self._retry_after_s)(scope, receive, probe.send)
        else:
            await self._app(scope, receive, probe.send)

    def _record(self, probe: _ResponseProbe, scope: Scope) -> None:
        route, method = route_label(scope["path"]), method_label(scope["method"])
        status = probe.status or CLIENT_CLOSED_REQUEST
        self._metrics.requests.labels(route, method, status).inc()
        self._metrics.seconds.labels(route).observe(probe.seconds)
        if code := scope.get(ERROR_CODE):
            self._metrics.errors.labels(code).inc()
        if scope["path"] not in _UNLOGGED_PATHS:
            entries = (f"{method} {route} {status}", f"{probe.seconds:.3f} s", code, *self._caller_entries(scope))
            _log.info("request %s: %s", probe.request_id, ", ".join(entry for entry in entries if entry))

    def _caller_entries(self, scope: Scope) -> Iterator[str]:
        """What the caller sent is logged as a literal, so that it can't begin a line."""
        if (param := scope.get(ERROR_PARAM)) is not None:
            yield f"field {param[:_MAX_SHOWN]!r}"
        if (user := scope.get(USER)) is not None:
            yield f"user {user!r}"
        if self._log_addresses and scope.get("client"):
            yield f"from {scope['client'][0]}"


class _ResponseProbe:
    """The status and the time of one response, seen as it is sent; it gives the response its request id."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._started_s = time.monotonic()
        self.status: int | None = None
        sent = Headers(scope=scope).get(REQUEST_ID)
        is_valid = sent is not None and re.fullmatch(REQUEST_ID_PATTERN, sent) is not None
        self.request_id: str = sent if sent is not None and is_valid else uuid.uuid4().hex
        self.id_error = None if sent is None or is_valid else _invalid_id()
        scope[REQUEST_ID] = self.request_id
        trace.get_current_span().set_attribute("request_id", self.request_id)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started_s

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID] = self.request_id
        await self._send(message)


def _invalid_id() -> ApiError:
    return ApiError(
        400,
        f"the header {REQUEST_ID} must match {REQUEST_ID_PATTERN}; leave it out to be given one",
        "invalid_request_id",
        REQUEST_ID,
    )


@contextmanager
def _join_callers_trace(scope: Scope) -> Iterator[None]:
    """Continues the caller's trace, which so reaches Triton even if the gateway makes no spans of its own."""
    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(PROPAGATOR.extract(Headers(scope=scope)))
    try:
        yield
    finally:
        context.detach(token)
