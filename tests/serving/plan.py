"""A model in the place of the VAE's plan: Triton's TensorRT backend needs a GPU."""

from __future__ import annotations

from pathlib import Path
from string import Template

from build.repository import TEMPLATES

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


def name_the_plan(repository: Path) -> None:
    config = repository / "vae_decoder" / "config.pbtxt"
    empty = 'key: "plan" value: { string_value: "" }'
    assert empty in config.read_text()
    config.write_text(config.read_text().replace(empty, 'key: "plan" value: { string_value: "vae_decoder_plan" }'))


def add_stand_in(folder: Path, onnx: Path, latent_channels: int) -> None:
    template = Template((TEMPLATES / "vae_decoder_plan" / "config.pbtxt").read_text())
    config = template.substitute(latent_channels=latent_channels)
    config = config.replace('platform: "tensorrt_plan"', 'backend: "python"').replace(
        "KIND_GPU gpus: [ 0 ]", "KIND_CPU"
    )
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(STAND_IN.format(path=str(onnx)))
