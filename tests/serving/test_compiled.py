"""A server whose transformer runs on a compiled engine: ONNX Runtime stands where TensorRT does on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from build.engines import build_engines
from build.export import export
from build.repository import render_repository
from build.settings import Settings
from build.target import Target
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.engines.profiles import named
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image_contract import Limits
from tests.serving.raw import ask

LIMITS = Limits(min_side=64, max_side=1024, max_pixels=512 * 512)
SETTINGS = Settings(engine="onnxruntime")


@pytest.fixture(scope="module")
def engines(tiny_checkpoint, tmp_path_factory) -> list[Path]:
    """Their manifests."""
    folder = tmp_path_factory.mktemp("engines")
    checkpoint = open_checkpoint(tiny_checkpoint)
    target = Target(library="onnxruntime", precision=Precision.FP32, profiles=named(["512"]))
    export(checkpoint, folder / "onnx", Precision.FP32, ["block"])
    return build_engines(checkpoint, folder / "onnx", folder / "engines", target, ["block"])


@pytest.fixture(scope="module")
def compiled_server(tiny_checkpoint, engines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    repository = render_repository(
        open_checkpoint(tiny_checkpoint), folder / "repository", settings=SETTINGS, limits=LIMITS, engines=engines
    )
    with TritonServer(repository, Ports.free(), folder / "tritonserver.log") as running:
        running.wait_until_ready()
        yield running


@pytest.mark.parametrize(("height", "width"), [(64, 64), (96, 160), (512, 512)])
@pytest.mark.parametrize("negative_prompt", [None, "blurry, low quality, watermark, and much longer than the prompt"])
def test_a_compiled_engine_paints_what_pytorch_paints(server, compiled_server, height, width, negative_prompt):
    wanted = {"height": height, "width": width, "num_inference_steps": 3, "seed": 4}
    if negative_prompt is not None:
        wanted["negative_prompt"] = negative_prompt
    expected, found = (
        ask(each, "a red star", outputs=["latents"], **wanted)["latents"] for each in (server, compiled_server)
    )
    assert np.abs(expected - found).max() < 1e-4


def test_a_size_outside_every_profile_is_refused_at_validation_with_what_is_allowed(compiled_server):
    with pytest.raises(InferenceServerException, match=r"is 270336 pixels; at most 262144 are allowed") as caught:
        ask(compiled_server, "a star", height=512, width=528)
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
