"""A stream says that it lives before there is anything to show, decodes what it shows, and tells of our mistakes."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import httpx
import pytest

from qwen_image_gateway.middleware.request_log import RequestLogMiddleware
from qwen_image_gateway.sse import EventResponse
from qwen_image_gateway.telemetry import GatewayMetrics
from tests.gateway.running import Gateway, gateway_over
from tests.gateway.samplers import of_samplers
from tests.serving.raw import settled

ROUTE = "/v1/images/generations"
SHORT = {"prompt": "a star", "size": "64x64", "num_inference_steps": 1, "stream": True}
LONG = {**SHORT, "size": "1024x1024", "num_inference_steps": 200}


def test_a_stream_that_waits_says_that_it_lives_and_what_is_refused_at_once_is_refused_by_its_status(
    narrow_server, tmp_path
):
    """One picture is painted as long as the test likes, one waits, and there is no room for a third."""
    with (
        gateway_over(narrow_server.grpc_url, tmp_path, "--keep-alive-s", "0.1") as often,
        gateway_over(narrow_server.grpc_url, tmp_path) as seldom,
        asked(often, LONG) as first,
    ):
        wait_for(narrow_server, "qwen_image_images_in_flight", 1)
        with asked(often, SHORT) as second:
            said = second.iter_text()
            assert next(said).startswith(": ")
            wait_for(narrow_server, "qwen_image_images_waiting", 1)
            with asked(seldom, SHORT) as third:
                assert third.status_code == 429
                assert '"code":"queue_full"' in third.read().decode()
            first.close()
            assert "event: image_generation.completed" in "".join(said)


def asked(gateway: Gateway, body: dict) -> AbstractContextManager[httpx.Response]:
    return httpx.stream("POST", f"{gateway.url}{ROUTE}", json=body, timeout=60)


def wait_for(server, metric: str, value: float) -> None:
    until_s = time.monotonic() + 60
    while of_samplers(server, metric) != value:
        assert time.monotonic() < until_s, metric
        time.sleep(0.01)


@pytest.mark.parametrize(("steps", "partial_images"), [(50, 3), (20, 2), (5, 1), (7, 0)])
def test_nothing_is_decoded_that_nobody_sees(client, server, steps, partial_images):
    before = settled(server, "vae_decoder").inference_count
    options = {"size": "64x64", "extra_body": {"num_inference_steps": steps, "true_cfg_scale": 1}}
    events = list(client.images.generate(prompt="a", stream=True, partial_images=partial_images, **options))
    assert len(events) == partial_images + 1
    assert settled(server, "vae_decoder").inference_count == before + partial_images + 1


@pytest.mark.asyncio
async def test_a_mistake_of_ours_in_a_stream_is_an_error_event_and_counted_and_logged(caplog):
    async def events():
        yield None
        raise KeyError("a mistake")

    async def app(scope, receive, send):
        await EventResponse(events(), keep_alive_s=15, timeout_s=60)(scope, receive, send)

    metrics = GatewayMetrics()
    transport = httpx.ASGITransport(RequestLogMiddleware(app, metrics, retry_after_s=1))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as caller:
        answer = await caller.post(ROUTE)
    assert answer.status_code == 200
    assert answer.text.startswith("event: error\ndata: {")
    assert '"code":"internal_error"' in answer.text
    assert metrics.registry.get_sample_value("qwen_image_gateway_errors_total", {"code": "internal_error"}) == 1
    assert "KeyError: 'a mistake'" in caplog.text
