"""Whoever asks and doesn't read the answer holds a place and memory for a while, and no longer."""

from __future__ import annotations

import http.client
import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from tests.gateway.running import Gateway, gateway_over

ROUTE = "/v1/images/generations"
IN_FLIGHT = f'qwen_image_gateway_requests_in_flight{{route="{ROUTE}"}}'
NOT_READ = 'qwen_image_gateway_errors_total{code="answer_not_read"}'
SHORT = {"prompt": "a star", "size": "64x64", "num_inference_steps": 1}
LARGE = {"prompt": "a star", "size": "512x512", "num_inference_steps": 2}
PREVIEWED = {**LARGE, "stream": True, "partial_images": 1}
NEVER = ("--write-timeout-s", "3600")


def unread(gateway: Gateway, body: dict) -> http.client.HTTPResponse:
    """An answer of which the headers are read. Little of the rest fits in between: packets and buffers are small."""
    address = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(address.netloc)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.sock.settimeout(120)
    connection.sock.connect((address.hostname, address.port))
    connection.request("POST", ROUTE, json.dumps(body), {"content-type": "application/json", "connection": "close"})
    answer = connection.getresponse()
    assert answer.status == 200
    return answer


def status(gateway: Gateway) -> int:
    return httpx.post(f"{gateway.url}{ROUTE}", json=SHORT, timeout=60).status_code


def wait_until_none_in_flight(gateway: Gateway) -> None:
    until_s = time.monotonic() + 60
    while gateway.metric(IN_FLIGHT) > 0:
        assert time.monotonic() < until_s, "the unread answer still holds its place"
        time.sleep(0.05)


def test_an_answer_holds_its_place_until_it_is_read(server, tmp_path):
    with gateway_over(server.grpc_url, tmp_path, "--max-requests", "1", *NEVER) as gateway:
        answer = unread(gateway, LARGE)
        assert status(gateway) == 429
        assert len(json.loads(answer.read())["data"]) == 1
        wait_until_none_in_flight(gateway)
        assert status(gateway) == 200
        assert gateway.metric(NOT_READ) == 0


@pytest.fixture(scope="module")
def impatient_gateway(server, tmp_path_factory):
    options = ("--max-requests", "1", "--write-timeout-s", "0.5")
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("impatient"), *options) as running:
        yield running


@pytest.mark.parametrize("body", [LARGE, PREVIEWED], ids=["at once", "stream"])
def test_an_answer_that_nobody_reads_is_broken_off_and_gives_its_place_back(impatient_gateway, body):
    before = impatient_gateway.metric(NOT_READ)
    answer = unread(impatient_gateway, body)
    wait_until_none_in_flight(impatient_gateway)
    assert impatient_gateway.metric(NOT_READ) == before + 1
    assert status(impatient_gateway) == 200
    with pytest.raises(http.client.IncompleteRead):
        answer.read()


def test_a_stream_that_nobody_reads_ends_at_its_deadline_and_nothing_is_written_into_half_an_event(server, tmp_path):
    options = ("--timeout-s", "2", "--keep-alive-s", "0.1", *NEVER)
    with gateway_over(server.grpc_url, tmp_path, *options) as gateway:
        answer = unread(gateway, PREVIEWED)
        wait_until_none_in_flight(gateway)
        for block in what_came(answer).split(b"\n\n"):
            assert block.count(b"event: ") + block.count(b": the picture") <= 1


def what_came(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read()
    except http.client.IncompleteRead as broken_off:
        return broken_off.partial
