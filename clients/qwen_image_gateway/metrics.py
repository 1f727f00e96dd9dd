"""The gateway's own metrics, beside Triton's."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from qwen_image_gateway.errors import CODES

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
_METHODS = ("GET", "POST", "OPTIONS", "HEAD")
_PAINTING = ("/v1/images/generations", "/v1/images/edits", "/v1/chat/completions")
_ROUTES = (*_PAINTING, "/v1/models", "/health", "/health/ready", "/metrics")
_OTHER = "other"  # for whatever callers make up: each label would be a series of its own


class Metrics:
    """One application's."""

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
        # From the start: Prometheus sees no rise in what is there for the first time.
        for code in CODES:
            self.errors.labels(code)
        for route in _PAINTING:
            self.requests.labels(route, "POST", "200")

    async def answer(self, request: Request) -> Response:
        """What Prometheus reads."""
        return Response(generate_latest(self.registry), headers={"content-type": CONTENT_TYPE_LATEST})


def route_of(path: str) -> str:
    """The label of a path."""
    if path in _ROUTES:
        return path
    if path.startswith("/v1/models/"):
        return "/v1/models/{id}"
    return "/page" if path.startswith("/page") else _OTHER


def method_of(method: str) -> str:
    """The label of a method."""
    return method if method in _METHODS else _OTHER
