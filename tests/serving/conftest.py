"""A server of two files: its models are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from build.engines import build_engines
from build.export import onnx_path
from build.repository import render_repository
from build.settings import Settings
from build.target import Target
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.engines.profiles import named
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image_contract import Limits
from tests.serving.plan import add_stand_in, name_the_plan

TARGET = Target(library="onnxruntime", precision=Precision.FP32, profiles=named(["512"]))
COMPILED = {
    "settings": Settings(engine="onnxruntime"),
    "limits": Limits(min_side=64, max_side=1024, max_pixels=512 * 512),
}


@pytest.fixture(scope="package")
def compiled_server(
    exported: Callable[..., Path], tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonServer]:
    """Its blocks and its decoder are compiled: ONNX Runtime stands where TensorRT does on a GPU."""
    folder, checkpoint = tmp_path_factory.mktemp("compiled"), open_checkpoint(tiny_checkpoint)
    onnx = exported(Precision.FP32, "block", "vae_decoder")
    engines = build_engines(checkpoint, onnx, folder / "engines", TARGET, ["block"])
    repository = render_repository(checkpoint, folder / "repository", engines=engines, **COMPILED)
    name_the_plan(repository)
    plan = onnx_path(onnx, "vae_decoder", Precision.FP32)
    add_stand_in(repository / "vae_decoder_plan", plan, checkpoint.family.latent_channels)
    with TritonServer(repository, Ports.free(), folder / "tritonserver.log", start_timeout_s=300) as running:
        running.wait_until_ready()
        yield running
