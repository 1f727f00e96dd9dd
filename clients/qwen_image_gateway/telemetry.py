"""The gateway's own metrics, its spans, and the trace context that joins Triton's spans to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from qwen_image_gateway.errors import CODES
from qwen_image_gateway.schemas import HEALTH_PATHS, IMAGE_PATHS, METRICS, MODELS

PROPAGATOR = TraceContextTextMapPropagator()
_SERVICE = "qwen-image-gateway"
_WITHOUT_SPANS = "/health,/metrics"
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
_METHODS = ("GET", "POST", "OPTIONS", "HEAD")
_ROUTES = (*IMAGE_PATHS, MODELS, *HEALTH_PATHS, METRICS)
_OTHER = "other"  # for any path or method that callers invent: each label value is a time series


class GatewayMetrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "qwen_image_gateway_requests_total",
            "Requests answered; status 499: the caller left first",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "qwen_image_gateway_request_seconds",
            "From a request's headers to the end of its answer",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "qwen_image_gateway_requests_in_flight", "Requests now", ("route",), registry=self.registry
        )
        self.errors = Counter(
            "qwen_image_gateway_errors_total",
            "Errors answered, in streams too, by their code",
            ("code",),
            registry=self.registry,
        )
        # Prometheus sees no increase in a series whose first sample it has just read, so these exist from the start.
        for code in CODES:
            self.errors.labels(code)
        for route in IMAGE_PATHS:
            self.requests.labels(route, "POST", "200")

    async def respond(self, request: Request) -> Response:
        """The route that Prometheus reads."""
        return Response(generate_latest(self.registry), headers={"content-type": CONTENT_TYPE_LATEST})


def route_label(path: str) -> str:
    """The label value of a path."""
    if path in _ROUTES:
        return path
    if path.startswith(f"{MODELS}/"):
        return f"{MODELS}/{{id}}"
    return "/page" if path.startswith("/page") else _OTHER


def method_label(method: str) -> str:
    """The label value of a method."""
    return method if method in _METHODS else _OTHER


class TraceHeaders(Mapping[str, str]):
    """The headers that carry the running task's trace to Triton; empty outside any trace.

    The SDK reads a connection's headers at every call, in the task that makes it.
    """

    def __getitem__(self, name: str) -> str:
        return self._inject()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inject())

    def __len__(self) -> int:
        return len(self._inject())

    def __bool__(self) -> bool:
        return True  # even while it is empty: a later call may be inside a trace

    def _inject(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        PROPAGATOR.inject(headers)
        return headers


@dataclass(frozen=True, slots=True)
class Tracing:
    """Makes spans and sends them; `provider` is None where no spans are made."""

    provider: TracerProvider | None

    @classmethod
    def to_endpoint(cls, endpoint: str | None) -> Tracing:
        """Sends spans to an OTLP receiver over HTTP, in batches; None: no spans."""
        if endpoint is None:
            return cls(None)
        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: _SERVICE}))
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return cls(provider)

    def instrument(self, app: FastAPI) -> None:
        """Makes a span of every request to the application."""
        if self.provider is not None:
            FastAPIInstrumentor.instrument_app(
                app, tracer_provider=self.provider, excluded_urls=_WITHOUT_SPANS, exclude_spans=["receive", "send"]
            )

    def span(self, name: str, **attributes: str) -> AbstractContextManager[trace.Span]:
        """A span around a call of Triton."""
        tracer = (self.provider or trace.NoOpTracerProvider()).get_tracer(_SERVICE)
        return tracer.start_as_current_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes)

    def close(self) -> None:
        """Sends the spans that are left."""
        if self.provider is not None:
            self.provider.shutdown()
