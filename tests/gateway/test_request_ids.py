"""One id for a request: the caller's or a new one, in the answer, in the log, in Triton's log."""

from __future__ import annotations

import re
import time

import httpx
import pytest

SHORT = {"prompt": "a star", "size": "64x64", "num_inference_steps": 1}


def ask(gateway, request_id: str | None = None, **fields) -> httpx.Response:
    headers = {} if request_id is None else {"x-request-id": request_id}
    return httpx.post(f"{gateway.url}/v1/images/generations", json={**SHORT, **fields}, headers=headers, timeout=60)


@pytest.mark.parametrize("stream", [False, True])
def test_the_callers_id_comes_back_and_stands_in_both_logs(gateway, server, stream):
    request_id = f"my:request/{stream}"
    assert ask(gateway, request_id, stream=stream, user="somebody").headers["x-request-id"] == request_id
    assert re.search(rf"\[request {request_id}-\w{{16}}\] images: 1", server.log_path.read_text())
    line = re.compile(rf"request {request_id}: .* 200, .*user 'somebody'")
    deadline = time.monotonic() + 10  # it is written when the answer is out
    while not line.search(gateway.log_path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert line.search(gateway.log_path.read_text())


def test_a_request_without_one_gets_one_and_so_does_an_error(gateway):
    made, refused = ask(gateway), ask(gateway, size="1")
    assert (made.status_code, refused.status_code) == (200, 400)
    assert made.headers["x-request-id"] != refused.headers["x-request-id"]


def test_the_same_id_twice_is_two_requests(gateway):
    ids = {ask(gateway, "twice").json()["data"][0]["recipe"]["request_id"] for _ in range(2)}
    assert len(ids) == 2
    assert {len(each) for each in ids} == {(len("twice-") + 16) // 2}, "half an id, with which nobody can cancel"


@pytest.mark.parametrize("request_id", ["", "two words", "x" * 129, "a]b", "ümlaut".encode()])
def test_an_id_that_would_spoil_the_log_is_refused(gateway, request_id):
    answer = ask(gateway, request_id)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == ("invalid_request_id", "x-request-id")
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
