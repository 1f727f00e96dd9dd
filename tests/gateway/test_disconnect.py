"""Work ends in Triton when its caller leaves, and when its time is over."""

from __future__ import annotations

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.gateway.running import gateway_over
from tests.gateway.samplers import of_samplers, wait_until_idle
from tests.pictures import picture, png
from tests.serving.raw import statistics

LONG = {"size": "512x512", "num_inference_steps": 150, "prompt": "a long one"}
NEVER_DONE = {"size": "1024x1024", "num_inference_steps": 200, "prompt": "a long one"}  # in the time it is given


def post(gateway, route: str, **options) -> httpx.Response:
    return httpx.post(f"{gateway.url}/v1/images/{route}", **options)


def leave(gateway, route: str, server, **options) -> None:
    """Sends a request and closes the connection once the transformer has made some steps."""
    steps = statistics(server, "dit").execution_count
    with httpx.Client() as caller:
        asking = threading.Thread(target=_ask, args=(caller, f"{gateway.url}/v1/images/{route}", options))
        asking.start()
        while statistics(server, "dit").execution_count < steps + 5:
            time.sleep(0.01)
        for connection in list(caller._transport._pool.connections):
            connection._connection._network_stream.get_extra_info("socket").shutdown(2)
        asking.join(30)


def _ask(caller: httpx.Client, url: str, options: dict) -> None:
    with pytest.raises(httpx.TransportError):
        caller.post(url, timeout=120, **options)


@pytest.mark.parametrize("stream", [False, True])
def test_a_closed_connection_cancels_the_work(gateway, server, stream):
    before = of_samplers(server, "qwen_image_cancelled_images_total")
    leave(gateway, "generations", server, json={**LONG, "stream": stream})
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == before + 1
    assert gateway.metric('qwen_image_gateway_errors_total{code="caller_left"}') > 0


def test_all_pictures_of_a_request_are_cancelled(gateway, server):
    before = of_samplers(server, "qwen_image_cancelled_images_total")
    leave(gateway, "generations", server, json={**LONG, "n": 3})
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == before + 3


def test_an_edit_is_cancelled_too(gateway, server):
    before = of_samplers(server, "qwen_image_cancelled_images_total")
    form = {"data": {**LONG, "strength": "1"}, "files": {"image": ("photo.png", png(picture(64, 64)))}}
    leave(gateway, "edits", server, **form)
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == before + 1


def test_a_loop_over_a_stream_that_is_left_cancels_the_work(client, server):
    before = of_samplers(server, "qwen_image_cancelled_images_total")
    with client.images.generate(
        prompt="a long one", size="512x512", stream=True, partial_images=3, extra_body={"num_inference_steps": 150}
    ) as events:
        assert next(iter(events)).partial_image_index == 0
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == before + 1


@pytest.mark.parametrize(
    ("route", "kind", "begin"),
    [("edits", "multipart/form-data; boundary=x", b"--x\r\n"), ("generations", "application/json", b'{"prompt": "a')],
)
def test_a_body_that_breaks_off_is_no_mistake_of_ours_nor_a_bad_request(gateway, route, kind, begin):
    bad = 'qwen_image_gateway_errors_total{code="bad_request"}'
    bad_before = gateway.metric(bad)
    left = 'qwen_image_gateway_errors_total{code="caller_left"}'
    before = gateway.metric(left)
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=30)
    connection.putrequest("POST", f"/v1/images/{route}")
    connection.putheader("content-type", kind)
    connection.putheader("content-length", "1000")
    connection.endheaders(begin)
    connection.close()
    until_s = time.monotonic() + 30
    while gateway.metric(left) == before and time.monotonic() < until_s:
        time.sleep(0.05)
    assert (gateway.metric(left), gateway.metric(bad)) == (before + 1, bad_before)
    assert gateway.metric('qwen_image_gateway_errors_total{code="internal_error"}') == 0


def test_a_gateway_that_is_told_to_stop_finishes_its_work_first(server, tmp_path):
    with ThreadPoolExecutor() as pool:
        with gateway_over(server.grpc_url, tmp_path) as gateway:
            steps = statistics(server, "dit").execution_count
            unguided = {**LONG, "num_inference_steps": 40, "true_cfg_scale": 1}
            asking = pool.submit(post, gateway, "generations", json=unguided, timeout=120)
            while statistics(server, "dit").execution_count < steps + 5:
                time.sleep(0.01)
        assert asking.result().status_code == 200


@pytest.fixture(scope="module")
def hasty_gateway(server, tmp_path_factory):
    """One that gives a request a second, and says every tenth of a second that a stream lives."""
    options = ("--timeout-s", "1", "--keep-alive-s", "0.1")
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("hasty"), *options) as running:
        yield running


def test_work_that_takes_too_long_is_a_504_and_ended(hasty_gateway, server):
    before = of_samplers(server, "qwen_image_cancelled_images_total")
    answer = post(hasty_gateway, "generations", json=NEVER_DONE, timeout=60)
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "timeout"
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == before + 1


def test_a_stream_that_takes_too_long_ends_with_an_error_event_and_says_meanwhile_that_it_lives(hasty_gateway):
    answer = post(hasty_gateway, "generations", json={**NEVER_DONE, "stream": True}, timeout=60)
    assert answer.status_code == 200
    *comments, last = answer.text.rstrip().split("\n\n")
    assert comments
    assert all(comment.startswith(": ") for comment in comments)
    assert last.startswith("event: error\ndata: {")


def test_openais_client_raises_the_error_of_a_stream(hasty_gateway):
    with hasty_gateway.client() as client, pytest.raises(openai.APIError, match="wasn't done in time"):
        list(client.images.generate(prompt="a", size="1024x1024", stream=True, extra_body={"num_inference_steps": 200}))
