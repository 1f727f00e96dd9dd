"""What is said of every request: its id, a line in the log, and the metrics."""

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

from qwen_image_gateway.error_answers import ERROR_CODE, ERROR_PARAM, ErrorResponse, internal_error
from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.leaving import CLIENT_CLOSED_REQUEST
from qwen_image_gateway.metrics import Metrics, method_of, route_of
from qwen_image_gateway.tracing import PROPAGATOR

REQUEST_ID = "x-request-id"
REQUEST_ID_PATTERN = r"[A-Za-z0-9._:/=+@-]{1,128}"
USER = "qwen_image_gateway.user"  # in the scope: whom the caller names
_SILENT = ("/health", "/health/ready", "/metrics")
_SHOWN = 60  # characters of a field's name, which may be any that a caller sends
_log = logging.getLogger("qwen_image_gateway")


class Observed:
    """Middleware around all others. A mistake of ours is logged with its traceback and answered 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics, retry_after_s: int, log_addresses: bool = False) -> None:
        self._app = app
        self._metrics = metrics
        self._retry_after_s = retry_after_s
        self._log_addresses = log_addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        with self._metrics.in_flight.labels(route_of(scope["path"])).track_inprogress(), _callers_trace(scope):
            try:
                await self._ask(answer, scope, receive)
            except Exception:
                _log.exception("request %s failed", answer.request_id)
                error = internal_error()
                scope[ERROR_CODE] = error.code
                if answer.status is None:
                    await ErrorResponse(error, self._retry_after_s)(scope, receive, answer.send)
            finally:
                self._note(answer, scope)

    async def _ask(self, answer: _Answer, scope: Scope, receive: Receive) -> None:
        if answer.refusal is not None:
            await ErrorResponse(answer.refusal, self._retry_after_s)(scope, receive, answer.send)
        else:
            await self._app(scope, receive, answer.send)

    def _note(self, answer: _Answer, scope: Scope) -> None:
        route, method, status = (
            route_of(scope["path"]),
            method_of(scope["method"]),
            answer.status or CLIENT_CLOSED_REQUEST,
        )
        self._metrics.requests.labels(route, method, status).inc()
        self._metrics.seconds.labels(route).observe(answer.seconds)
        if code := scope.get(ERROR_CODE):
            self._metrics.errors.labels(code).inc()
        if scope["path"] not in _SILENT:
            facts = (f"{method} {route} {status}", f"{answer.seconds:.3f} s", code, *self._more(scope))
            _log.info("request %s: %s", answer.request_id, ", ".join(fact for fact in facts if fact))

    def _more(self, scope: Scope) -> Iterator[str]:
        """What a caller has sent is shown as a literal, so that it can't begin a line."""
        if (param := scope.get(ERROR_PARAM)) is not None:
            yield f"field {param[:_SHOWN]!r}"
        if (user := scope.get(USER)) is not None:
            yield f"user {user!r}"
        if self._log_addresses and scope.get("client"):
            yield f"from {scope['client'][0]}"


class _Answer:
    """One request's answer, on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._began_s = time.monotonic()
        self.status: int | None = None
        given = Headers(scope=scope).get(REQUEST_ID)
        is_good = given is not None and re.fullmatch(REQUEST_ID_PATTERN, given) is not None
        self.request_id: str = given if given is not None and is_good else uuid.uuid4().hex
        self.refusal = None if given is None or is_good else _bad_id()
        scope[REQUEST_ID] = self.request_id
        trace.get_current_span().set_attribute("request_id", self.request_id)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID] = self.request_id
        await self._send(message)


def _bad_id() -> ApiError:
    return ApiError(
        400,
        f"the header {REQUEST_ID} must match {REQUEST_ID_PATTERN}; leave it out to be given one",
        "invalid_request_id",
        REQUEST_ID,
    )


@contextmanager
def _callers_trace(scope: Scope) -> Iterator[None]:
    """The trace that the caller names, handed on to Triton also where the gateway makes no spans of its own."""
    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(PROPAGATOR.extract(Headers(scope=scope)))
    try:
        yield
    finally:
        context.detach(token)
