"""What an operator relies on: readiness, metrics, logs, limits, memory, a clean end."""

from __future__ import annotations

import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from build.settings import Settings
from qwen_image.launch.tritonserver import TritonServer
from tests.servers import UNLOADING_S, serving
from tests.serving.processes import assert_all_ended_in_order, resident_bytes, shared_memory_bytes, stub_of
from tests.serving.raw import ask, cancel, metrics, under_way

SMALL = {"height": 64, "width": 64, "num_inference_steps": 2, "outputs": ("latents",)}
LONG = {"height": 512, "width": 512, "num_inference_steps": 150, "outputs": ("latents",)}
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def narrow_server(slow, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """One image at a time and one in the queue. The last test of this file ends it."""
    settings = Settings(max_images_in_flight=1, max_images_waiting=1)
    folder = tmp_path_factory.mktemp("narrow")
    with serving(tiny_checkpoint, folder, settings=settings, exit_timeout_s=UNLOADING_S) as running:
        yield running


def test_the_server_is_ready_only_after_every_model_is_warm(narrow_server):
    log = narrow_server.log_path.read_text()
    assert all(f"[{model}] warm after" in log for model in ("text_encoder", "dit", "vae_decoder"))
    assert narrow_server.is_ready()


def test_metrics_count_steps_batches_images_and_cancellations(server):
    before = metrics(server)
    ask(server, ["a star", "a cat"], negative_prompt="", **SMALL)
    request_id = uuid.uuid4().hex
    cancel(server, request_id)
    with pytest.raises(InferenceServerException):
        ask(server, "a star", request_id=request_id, **SMALL)
    after = metrics(server)
    grown = {
        name.split("{")[0]: after[name] - before.get(name, 0.0)
        for name in after
        if name.startswith("qwen_image_") and 'model="sampler_stream"' not in name
    }
    assert grown["qwen_image_images_total"] == 2
    assert grown["qwen_image_cancelled_images_total"] == 1
    assert grown["qwen_image_step_calls_total"] == grown["qwen_image_dit_steps_total"] == 4
    assert grown["qwen_image_dit_batch_rows_total"] == 4
    assert 2 <= grown["qwen_image_dit_batches_total"] <= 4
    assert 0 < grown["qwen_image_dit_compute_seconds_total"] < grown["qwen_image_step_seconds_total"]
    assert after['qwen_image_images_in_flight{model="sampler"}'] == 0


def test_tritons_own_metrics_are_there_for_every_model(server):
    ask(server, "a star", height=64, width=64, num_inference_steps=2)
    with urllib.request.urlopen(server.metrics_url, timeout=10) as answer:
        text = answer.read().decode()
    for model in ("qwen_image", "validator", "text_encoder", "sampler", "dit", "vae_decoder"):
        assert f'nv_inference_queue_duration_us{{model="{model}"' in text


def test_the_log_carries_the_request_id(server):
    request_id = uuid.uuid4().hex
    ask(server, "a star", request_id=request_id, **SMALL)
    with pytest.raises(InferenceServerException):
        ask(server, "a star", request_id=request_id, height=65)
    lines = [line for line in server.log_path.read_text().splitlines() if request_id in line]
    assert any("images: 1 of 64x64" in line for line in lines)
    assert any("height=65 must be" in line for line in lines)


def test_what_the_queue_has_no_room_for_is_refused_at_once_and_nothing_hangs(narrow_server, at_once):
    def one(_: int) -> float | InferenceServerException:
        try:
            ask(narrow_server, "a star", **LONG)
        except InferenceServerException as error:
            return error
        return time.monotonic()

    answers = at_once(one, range(4))
    refused = [answer for answer in answers if isinstance(answer, InferenceServerException)]
    assert len(refused) == 2
    assert {error.status() for error in refused} == {"StatusCode.UNAVAILABLE"}
    with pytest.raises(InferenceServerException, match="height=65"):  # and the server still answers
        ask(narrow_server, "a star", height=65)


def test_a_thousand_failing_requests_leave_memory_flat(server, at_once):
    def fail(position: int) -> bool:
        with pytest.raises(InferenceServerException):
            ask(server, "star " * (1100 if position % 2 else 1), height=64 if position % 2 else 65)
        return True

    at_once(fail, range(100))
    resident, shared = resident_bytes(server), shared_memory_bytes(server)
    assert sum(at_once(fail, range(1000))) == 1000
    assert resident_bytes(server) - resident < 100 * MEBIBYTE
    assert shared_memory_bytes(server) - shared < 16 * MEBIBYTE


def test_many_requests_of_mixed_sizes_leave_memory_flat(server, at_once):
    """Sizes that hardly repeat: what the C library keeps of each in holes would be 236 MiB after so many."""
    random = Random(1)
    sizes = [(16 * random.randint(4, 20), 16 * random.randint(4, 20)) for _ in range(600)]

    def one(position: int) -> bool:
        height, width = sizes[position]
        image = ask(server, f"star {position % 7}", height=height, width=width, num_inference_steps=1)["image"]
        return image.shape == (1, height, width, 3)

    decoder = stub_of(server, "vae_decoder")
    resident, shared, decoded = resident_bytes(server), shared_memory_bytes(server), decoder.memory_info().rss
    assert all(at_once(one, range(len(sizes))))
    assert decoder.memory_info().rss - decoded < 180 * MEBIBYTE
    assert resident_bytes(server) - resident < 300 * MEBIBYTE
    assert shared_memory_bytes(server) - shared < 32 * MEBIBYTE


def test_a_server_that_is_stopped_finishes_what_is_in_flight(narrow_server):
    with ThreadPoolExecutor() as pool:
        running = under_way(pool, narrow_server, **LONG)
        assert narrow_server.stop() == 0
        assert np.isfinite(running.result(30)["latents"]).all()
    assert shared_memory_bytes(narrow_server) == 0
    assert_all_ended_in_order(narrow_server)
