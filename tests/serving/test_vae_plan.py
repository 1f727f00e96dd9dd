"""The VAE as a compiled model of its own, which `vae_decoder` calls row by row, as in the GPU repository.

Triton's TensorRT backend needs a GPU; in its place a model of the same name and tensors runs the exported file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from build.export import export, onnx_path
from build.repository import TEMPLATES, render_repository
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.launch.tritonserver import Ports, TritonServer
from tests.pictures import levels_apart
from tests.serving.raw import ask, settled, stream

STAND_IN = """
import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self._session = onnxruntime.InferenceSession({path!r})

    def execute(self, requests):
        latents = [pb_utils.get_input_tensor_by_name(request, "latents").as_numpy() for request in requests]
        pixels = [self._session.run(["image"], {{"latents": each}})[0] for each in latents]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("image", each)]) for each in pixels]
"""
PLANNED = {"prompt": ["a star", "a cat", "a dog"], "height": 96, "width": 160, "num_inference_steps": 2}


@pytest.fixture(scope="module")
def plan_server(tiny_checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    checkpoint = open_checkpoint(tiny_checkpoint)
    export(checkpoint, folder / "onnx", Precision.FP32, ["vae_decoder"])
    repository = render_repository(checkpoint, folder / "repository")
    name_the_plan(repository)
    add_stand_in(repository / "vae_decoder_plan", onnx_path(folder / "onnx", "vae_decoder", Precision.FP32))
    with TritonServer(repository, Ports.free(), folder / "tritonserver.log") as running:
        running.wait_until_ready()
        yield running


def name_the_plan(repository: Path) -> None:
    config = repository / "vae_decoder" / "config.pbtxt"
    empty = 'key: "plan" value: { string_value: "" }'
    assert empty in config.read_text()
    config.write_text(config.read_text().replace(empty, 'key: "plan" value: { string_value: "vae_decoder_plan" }'))


def add_stand_in(folder: Path, onnx: Path) -> None:
    config = (TEMPLATES / "vae_decoder_plan" / "config.pbtxt").read_text()
    config = config.replace('platform: "tensorrt_plan"', 'backend: "python"').replace(
        "KIND_GPU gpus: [ 0 ]", "KIND_CPU"
    )
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(STAND_IN.format(path=str(onnx)))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_rows_come_out_as_pytorch_decodes_them(server, plan_server, protocol):
    wanted = {**PLANNED, "protocol": protocol, "outputs": ["image", "latents"], "seed": [1, 2, 3]}
    expected, found = ask(server, **wanted), ask(plan_server, **wanted)
    assert found["image"].shape == (3, 96, 160, 3)
    assert levels_apart(expected["image"], found["image"]) <= 1
    assert len({row.tobytes() for row in found["image"]}) == 3


def test_every_row_is_a_call_of_one(plan_server):
    before = settled(plan_server, "vae_decoder_plan")
    ask(plan_server, **PLANNED)
    after = settled(plan_server, "vae_decoder_plan")
    assert after.inference_count - before.inference_count == 3
    assert after.execution_count - before.execution_count == 3


def test_the_plan_does_not_run_when_only_latents_are_wanted(plan_server):
    before = settled(plan_server, "vae_decoder_plan").inference_count
    ask(plan_server, **PLANNED, outputs=["latents"])
    assert settled(plan_server, "vae_decoder_plan").inference_count == before


def test_previews_come_through_it_too(plan_server):
    responses = list(stream(plan_server, "a star", height=64, width=64, num_inference_steps=3))
    assert [response["image"].shape for response in responses] == [(1, 64, 64, 3)] * 3
