"""What is over a limit is refused at once: before it is read, before it waits."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from PIL import Image

from tests.gateway.running import gateway_over
from tests.pictures import picture, png

MIB = 1024**2


def began(gateway, path: str, headers: dict[str, str]) -> http.client.HTTPConnection:
    """A request whose body isn't sent yet."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=30)
    connection.putrequest("POST", path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


@pytest.mark.parametrize(("route", "length"), [("generations", MIB + 1), ("edits", 64 * MIB + 1)])
def test_a_body_that_says_it_is_too_large_is_refused_before_a_byte_of_it_is_sent(gateway, route, length):
    connection = began(gateway, f"/v1/images/{route}", {"content-length": str(length)})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("connection")) == (413, "close")
    assert b'"code":"body_too_large"' in answer.read()
    connection.close()


def test_a_body_that_does_not_say_how_large_it_is_is_refused_once_it_is_too_large(gateway):
    sent = 0

    def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 65_536

    answer = httpx.post(
        f"{gateway.url}/v1/images/generations", content=endless(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"
    assert sent * 65_536 < 32 * MIB


def test_a_body_that_does_not_come_gives_its_place_back(server, tmp_path):
    with gateway_over(server.grpc_url, tmp_path, "--max-requests", "1", "--body-timeout-s", "0.2") as gateway:
        for route in ("generations", "edits"):
            headers = {"content-length": "100", "content-type": "multipart/form-data; boundary=x"}
            connection = began(gateway, f"/v1/images/{route}", headers)
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("connection")) == (408, "close")
            assert b'"code":"body_too_slow"' in answer.read()
            connection.close()


@pytest.mark.parametrize("name", ["image", "mask"])
@pytest.mark.parametrize("side", [5000, 14_000])
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(client, name, side):
    files = {"image": png(picture(64, 64)), name: png(Image.new("1", (side, side)))}
    with pytest.raises(openai.APIStatusError) as refused:
        client.images.edit(prompt="a star", **files)
    assert (refused.value.status_code, refused.value.code) == (413, "picture_too_large")


def test_a_full_queue_in_triton_is_a_429(narrow_server, tmp_path):
    """One picture is painted, one waits; the other two of the four are refused, and then all are ended."""
    with gateway_over(narrow_server.grpc_url, tmp_path) as gateway, gateway.client() as client:
        with pytest.raises(openai.RateLimitError, match="the queue is full") as refused:
            client.images.generate(prompt="a", n=4, size="512x512", extra_body={"num_inference_steps": 150})
        assert refused.value.code == "queue_full"
        assert refused.value.response.headers["retry-after"] == "1"
        assert gateway.metric('qwen_image_gateway_errors_total{code="queue_full"}') == 1
        patient = client.with_options(max_retries=5)  # it waits as long as it was told
        assert patient.images.generate(prompt="a star", extra_body={"num_inference_steps": 1}).data


def test_openais_client_raises_a_rate_limit_error(server, tmp_path):
    with gateway_over(server.grpc_url, tmp_path, "--max-requests", "1") as gateway, gateway.client() as client:
        connection = began(gateway, "/v1/images/generations", {"content-length": "9"})
        while gateway.metric('qwen_image_gateway_requests_in_flight{route="/v1/images/generations"}') < 1:
            time.sleep(0.01)
        with pytest.raises(openai.RateLimitError, match="as many as are taken"):
            client.images.generate(prompt="a star")
        connection.close()


def test_more_requests_than_are_taken_are_a_429_at_once_whatever_they_ask(server, tmp_path):
    with gateway_over(server.grpc_url, tmp_path, "--max-requests", "2", "--retry-after-s", "7") as gateway:
        url = f"{gateway.url}/v1/images/generations"
        held = [began(gateway, "/v1/images/generations", {"content-length": "9"}) for _ in "ab"]
        in_flight = 'qwen_image_gateway_requests_in_flight{route="/v1/images/generations"}'
        while gateway.metric(in_flight) < 2:
            time.sleep(0.01)
        picture = {"image": ("large.png", bytes(4 * MIB), "image/png")}
        uploaded = httpx.post(f"{gateway.url}/v1/images/edits", data={"prompt": "a star"}, files=picture, timeout=60)
        assert uploaded.status_code == 429, "whoever sends it all reads the answer, too"
        connection = began(gateway, "/v1/images/edits", {"content-length": str(MIB)})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("retry-after")) == (429, "7")
        assert b'"code":"gateway_busy"' in answer.read()
        connection.close()
        assert httpx.get(f"{gateway.url}/v1/models").status_code == 200
        for each in held:
            each.close()
        while gateway.metric(in_flight) > 0:
            time.sleep(0.01)
        assert httpx.post(url, json={"prompt": "a star", "num_inference_steps": 1}, timeout=60).status_code == 200
