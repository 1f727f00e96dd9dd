"""How many bytes of pictures may be in work: each file counts once for every picture that is made of it."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.running import gateway_over
from tests.gateway.samplers import wait_until_idle
from tests.pictures import picture, png

PHOTO = png(picture(64, 64))
FILES = {"image": ("photo.png", PHOTO, "image/png")}


@pytest.fixture(scope="module")
def narrow_gateway(server, tmp_path_factory):
    """It has room for two pictures made of PHOTO."""
    room = str(2 * len(PHOTO))
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("narrow"), "--max-bytes-in-work", room) as running:
        yield running


def test_a_request_that_is_over_by_itself_is_told_to_ask_for_less(narrow_gateway):
    url = f"{narrow_gateway.url}/v1/images/edits"
    fits = {"prompt": "a star", "num_inference_steps": "2", "n": "2"}
    assert httpx.post(url, data=fits, files=FILES, timeout=60).status_code == 200
    refused = httpx.post(url, data={**fits, "n": "3"}, files=FILES, timeout=60)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "picture_too_large")
    assert f"at most {2 * len(PHOTO)} are" in refused.json()["error"]["message"]


def test_a_request_for_which_there_is_no_room_now_is_told_to_come_again(narrow_gateway, server):
    url = f"{narrow_gateway.url}/v1/images/edits"
    long = {"prompt": "a long one", "size": "512x512", "num_inference_steps": "150", "strength": "1", "stream": "true"}
    with httpx.stream("POST", url, data=long, files=FILES, timeout=60) as streaming:
        assert streaming.status_code == 200
        refused = httpx.post(url, data={"prompt": "a star", "n": "2"}, files=FILES, timeout=60)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "gateway_busy")
        assert refused.headers["retry-after"] == "1"
    wait_until_idle(server)
    quick = {"prompt": "a star", "num_inference_steps": "2", "n": "2"}
    assert httpx.post(url, data=quick, files=FILES, timeout=60).status_code == 200, "the place was given back"
