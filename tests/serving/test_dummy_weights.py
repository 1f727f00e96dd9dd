"""`load_format=dummy`: a server over configurations alone, and calls of several steps."""

from __future__ import annotations

import threading
import time
import uuid

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from build.repository import render_repository
from build.settings import Settings
from build.skeleton_checkpoint import write_skeleton
from qwen_image.checkpoint import LoadFormat, open_checkpoint
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image_contract import Limits
from tests.serving.raw import ask, cancel, metrics, statistics, stream

STEPS_PER_CALL = 2  # of an image of 128 x 128 pixels, which has 64 tokens
STEPS_PER_CALL_ALONE = 3
CALLS = 'qwen_image_step_calls_total{model="sampler"}'


@pytest.fixture(scope="module")
def dummy_server(slow, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dummy")
    checkpoint = open_checkpoint(write_skeleton(folder / "skeleton", dimensions="tiny"), needs_weights=False)
    settings = Settings(
        load_format=LoadFormat.DUMMY,
        tokens_per_call=STEPS_PER_CALL * 64,
        tokens_per_call_alone=STEPS_PER_CALL_ALONE * 64,
    )
    repository = render_repository(
        checkpoint, folder / "repository", settings=settings, limits=Limits(max_inference_steps=5000)
    )
    with TritonServer(repository, Ports.free(), folder / "tritonserver.log") as running:
        running.wait_until_ready()
        yield running


def test_it_paints_noise_of_the_right_shape(dummy_server):
    answer = ask(dummy_server, "a star", outputs=["image", "latents"], num_inference_steps=2, seed=1)
    assert answer["image"].shape == (1, 128, 128, 3)
    assert np.isfinite(answer["latents"]).all()
    assert answer["image"].std() > 1


def test_a_prompt_changes_the_picture(dummy_server):
    one, other = (
        ask(dummy_server, prompt, outputs=["latents"], num_inference_steps=2, seed=1)["latents"]
        for prompt in ("a star", "two red circles")
    )
    assert np.abs(one - other).max() > 1e-6


@pytest.mark.parametrize(("side", "steps", "calls"), [(128, 6, 2), (128, 7, 3), (256, 3, 3)])
def test_a_call_advances_as_many_steps_as_fit_its_tokens(dummy_server, side, steps, calls):
    before = metrics(dummy_server).get(CALLS, 0)
    ask(dummy_server, "a star", outputs=["latents"], height=side, width=side, num_inference_steps=steps)
    assert metrics(dummy_server)[CALLS] - before == calls


def test_images_that_are_not_alone_make_fewer_steps_a_call(dummy_server):
    before = metrics(dummy_server).get(CALLS, 0)
    ask(dummy_server, ["a star", "a ring"], outputs=["latents"], num_inference_steps=6)
    assert metrics(dummy_server)[CALLS] - before == 2 * 3


def test_a_stream_answers_after_every_step_all_the_same(dummy_server):
    answers = stream(dummy_server, "a star", outputs=["step"], num_inference_steps=4, preview_every=0)
    assert [int(answer["step"][0, 0]) for answer in answers] == [1, 2, 3, 4]


def test_a_cancelled_request_ends_within_two_calls(dummy_server):
    request_id, failed = uuid.uuid4().hex, []

    def run() -> None:
        with pytest.raises(InferenceServerException) as caught:
            ask(dummy_server, "a long one", outputs=["latents"], num_inference_steps=5000, request_id=request_id)
        failed.append(caught.value.status())

    calls = statistics(dummy_server, "dit").execution_count
    running = threading.Thread(target=run)
    running.start()
    while statistics(dummy_server, "dit").execution_count < calls + 3:
        time.sleep(0.005)
    assert cancel(dummy_server, request_id) == 1
    after_cancel = statistics(dummy_server, "dit").execution_count
    running.join(60)
    time.sleep(0.3)
    assert failed == ["StatusCode.CANCELLED"]
    assert statistics(dummy_server, "dit").execution_count <= after_cancel + 2
