"""Triton's own options of a request: its timeout is heeded, its priority does nothing."""

from __future__ import annotations

import time

import pytest
from tritonclient.utils import InferenceServerException

from tests.serving.raw import ask, metrics, statistics, stream

LONG = {"height": 512, "width": 512, "num_inference_steps": 150}
SHORT = {"height": 64, "width": 64, "num_inference_steps": 2}


@pytest.mark.parametrize(("protocol", "status"), [("grpc", "StatusCode.UNAVAILABLE"), ("http", "503")])
def test_a_request_ends_at_its_own_timeout(server, protocol, status):
    with pytest.raises(InferenceServerException, match=r"timeout=1000 microseconds, .* \[UNAVAILABLE\]") as caught:
        ask(server, "a long one", protocol=protocol, options={"timeout": 1000}, **LONG)
    assert caught.value.status() == status
    steps = statistics(server, "dit").execution_count
    time.sleep(0.5)
    assert statistics(server, "dit").execution_count == steps


def test_a_stream_ends_at_its_own_timeout_in_the_middle(server):
    name = 'qwen_image_refused_images_total{model="sampler_stream"}'
    before, frames = metrics(server).get(name, 0), 0
    with pytest.raises(InferenceServerException, match="timeout=500000 microseconds"):
        for _ in stream(server, "a long one", outputs=("step",), options={"timeout": 500_000}, **LONG):
            frames += 1
    assert frames < LONG["num_inference_steps"]
    assert metrics(server)[name] == before + 1


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("options", [{"timeout": 600_000_000}, {"priority": 3}])
def test_a_timeout_that_lies_ahead_and_a_priority_change_nothing(server, protocol, options):
    image = ask(server, "a star", protocol=protocol, options=options, **SHORT)["image"]
    assert image.shape == (1, 64, 64, 3)
