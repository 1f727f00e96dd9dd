"""A receiver of traces, by OTLP over HTTP: the gateway sends protobuf, Triton 2.51 JSON."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Span:
    """One span, as far as tests look at it."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str


@dataclass(slots=True)
class Receiver:
    """What arrived so far at `url`."""

    url: str
    spans: list[Span] = field(default_factory=list)

    def of_trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id == trace_id]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            receiver.spans.extend(_spans(self.headers["content-type"], content))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        receiver = Receiver(f"http://127.0.0.1:{listening.server_port}")
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            listening.shutdown()
            thread.join()


def _spans(kind: str, content: bytes) -> Iterator[Span]:
    if kind == "application/json":
        request, hexadecimal = json.loads(content), str
    else:
        message = ExportTraceServiceRequest.FromString(content)
        request, hexadecimal = MessageToDict(message), _hexadecimal
    for resource in request["resourceSpans"]:
        attributes: list[dict[str, Any]] = resource["resource"].get("attributes", [])
        service = next((each["value"]["stringValue"] for each in attributes if each["key"] == "service.name"), "")
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                ids = (hexadecimal(span.get(name, "")) for name in ("traceId", "spanId", "parentSpanId"))
                yield Span(service, span["name"], *ids)


def _hexadecimal(base64_text: str) -> str:
    return base64.b64decode(base64_text).hex()
