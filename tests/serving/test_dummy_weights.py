"""`load_format=dummy`: a server over configurations alone, and calls of several steps."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import LoadFormat, open_checkpoint
from qwen_image.errors import CheckpointError
from qwen_image.serving.tritonserver import Ports, TritonServer
from tests.serving.raw import ask, metrics


@pytest.fixture(scope="module")
def skeleton(tiny_checkpoint, tmp_path_factory):
    """The tiny checkpoint without a weight."""
    folder = tmp_path_factory.mktemp("skeleton") / "tiny"
    return shutil.copytree(tiny_checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors*"))


@pytest.fixture(scope="module")
def dummy_server(skeleton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dummy")
    settings = Settings(load_format=LoadFormat.DUMMY, tokens_per_call=3 * 8 * 8)
    checkpoint = open_checkpoint(skeleton, needs_weights=False)
    repository = render_repository(checkpoint, folder / "repository", settings=settings)
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
    counter = 'qwen_image_step_calls_total{model="sampler"}'
    before = metrics(dummy_server).get(counter, 0)
    ask(dummy_server, "a star", outputs=["latents"], height=side, width=side, num_inference_steps=steps)
    assert metrics(dummy_server)[counter] - before == calls


def test_without_the_setting_missing_weights_are_named(skeleton):
    with pytest.raises(CheckpointError, match=r"transformer has no weights .*load_format=dummy needs none"):
        open_checkpoint(skeleton)
