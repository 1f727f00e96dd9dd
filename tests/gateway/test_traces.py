"""One request, one trace: the caller's, the gateway's spans and Triton's."""

from __future__ import annotations

import time
import uuid

import httpx
import pytest

from tests.gateway.running import gateway_over
from tests.gateway.trace_receiver import Span

GATEWAY, CALLER = "qwen-image-gateway", "b7ad6b7169203331"
SHORT = {"prompt": "a star", "size": "64x64", "num_inference_steps": 2}


@pytest.mark.timeout(60, func_only=True)
def test_a_gateway_that_was_there_first_finds_triton_once_it_is_up(narrow_server, early_gateway):
    while httpx.get(f"{early_gateway.url}/health/ready").status_code != 200:
        time.sleep(0.1)
    ask(early_gateway, uuid.uuid4().hex)


def spans_of(traces, trace_id: str, last: str) -> dict[str, Span]:
    """A trace's spans by their names, once the one that ends last has arrived."""
    while last not in {span.name for span in traces.of_trace(trace_id)}:
        time.sleep(0.1)
    return {span.name: span for span in traces.of_trace(trace_id)}


def ask(gateway, trace_id: str, **fields) -> None:
    answer = httpx.post(
        f"{gateway.url}/v1/images/generations",
        json={**SHORT, **fields},
        headers={"traceparent": f"00-{trace_id}-{CALLER}-01"},
        timeout=60,
    )
    assert answer.status_code == 200


@pytest.mark.timeout(60, func_only=True)
@pytest.mark.parametrize(("stream", "model"), [(False, "qwen_image"), (True, "qwen_image_stream")])
def test_caller_gateway_and_triton_share_one_trace(narrow_server, traces, tmp_path, stream, model):
    trace_id = uuid.uuid4().hex
    with gateway_over(narrow_server.grpc_url, tmp_path, "--otlp-endpoint", traces.url) as gateway:
        ask(gateway, trace_id, stream=stream)
    spans = spans_of(traces, trace_id, "InferRequest")
    route, call, request, ensemble = (
        spans[name] for name in ("POST /v1/images/generations", f"triton {model}", "InferRequest", model)
    )
    assert (route.service, call.service, request.service, ensemble.service) == (*[GATEWAY] * 2, *["triton"] * 2)
    assert (route.parent_id, call.parent_id) == (CALLER, route.span_id)
    assert (request.parent_id, ensemble.parent_id) == (call.span_id, request.span_id)


@pytest.mark.timeout(60, func_only=True)
def test_a_gateway_that_makes_no_spans_hands_the_callers_trace_on(narrow_server, traces, tmp_path):
    trace_id = uuid.uuid4().hex
    with gateway_over(narrow_server.grpc_url, tmp_path) as gateway:
        ask(gateway, trace_id)
    spans = spans_of(traces, trace_id, "InferRequest")
    assert spans["InferRequest"].parent_id == CALLER
    assert {span.service for span in spans.values()} == {"triton"}
