"""Traces: spans of the gateway's own, and the context that joins Triton's to them."""

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

_NAME = "qwen-image-gateway"
_WITHOUT_SPANS = "/health,/metrics"
PROPAGATOR = TraceContextTextMapPropagator()


class CurrentTrace(Mapping[str, str]):
    """The headers that tell Triton of the trace which the running task belongs to; none where there is none.

    The SDK reads the headers of a connection for every call, in the task that makes it.
    """

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __bool__(self) -> bool:
        return True  # also while it is empty: it is what it will be that counts

    def _now(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        PROPAGATOR.inject(headers)
        return headers


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans go; `provider` is None where none are made."""

    provider: TracerProvider | None

    @classmethod
    def to(cls, endpoint: str | None) -> Tracing:
        """Spans sent to an OTLP receiver over HTTP, in batches; None: no spans."""
        if endpoint is None:
            return cls(None)
        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: _NAME}))
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return cls(provider)

    def watch(self, app: FastAPI) -> None:
        """Makes a span of every request to the application."""
        if self.provider is not None:
            FastAPIInstrumentor.instrument_app(
                app, tracer_provider=self.provider, excluded_urls=_WITHOUT_SPANS, exclude_spans=["receive", "send"]
            )

    def span(self, name: str, **attributes: str) -> AbstractContextManager[trace.Span]:
        """A span around work in Triton."""
        tracer = (self.provider or trace.NoOpTracerProvider()).get_tracer(_NAME)
        return tracer.start_as_current_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes)

    def close(self) -> None:
        """Sends what wasn't sent yet."""
        if self.provider is not None:
            self.provider.shutdown()
