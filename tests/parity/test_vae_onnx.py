"""The VAE's ONNX files, run by ONNX Runtime on the CPU, against diffusers' AutoencoderKLQwenImage in float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from diffusers import AutoencoderKLQwenImage

from build.export import onnx_path
from build.export_vae import export_vae, vae_inputs
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.engines.manifest import VAE_COMPONENTS
from qwen_image.families import QWEN_IMAGE

pytestmark = pytest.mark.slow
TOLERANCE = 1e-4  # of latents, and of pixels on [0, 1]
SIZES = [(1, 64, 64), (1, 128, 128), (2, 64, 160), (2, 176, 80), (1, 256, 192)]  # rows, height, width
INTERFACE = {  # input and output; None: any
    "vae_decoder": [("latents", "FLOAT", [None, 16, 1, None, None]), ("image", "UINT8", [None, None, None, 3])],
    "vae_encoder": [
        ("image", "UINT8", [None, None, None, 3]),
        ("latents", "FLOAT", [None, 16, 1, None, None]),
        ("deviation", "FLOAT", [None, 16, 1, None, None]),
    ],
}
DEMO_CHECKPOINT = Path(__file__).resolve().parents[2] / "demo" / "checkpoint"


class Case:
    """diffusers' VAE of a checkpoint beside the two files made of it."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self._vae = AutoencoderKLQwenImage.from_pretrained(folder / "vae", torch_dtype=torch.float32)
        shape = (1, self._vae.config.z_dim, 1, 1, 1)
        self._mean = torch.tensor(self._vae.config.latents_mean).view(shape)
        self._std = torch.tensor(self._vae.config.latents_std).view(shape)
        decoder, encoder = files
        self._decoder = onnxruntime.InferenceSession(decoder, providers=["CPUExecutionProvider"])
        self._encoder = onnxruntime.InferenceSession(encoder, providers=["CPUExecutionProvider"])

    @torch.inference_mode()
    def decoded(self, latents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes of the file, and diffusers' pixels on [0, 1]."""
        decoded = self._vae.decode(torch.from_numpy(latents) * self._std + self._mean, return_dict=False)[0][:, :, 0]
        return self._decoder.run(["image"], {"latents": latents})[0], (decoded / 2 + 0.5).permute(0, 2, 3, 1).numpy()

    @torch.inference_mode()
    def encoded(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latents of the file, and diffusers'."""
        pixels = torch.from_numpy(image).permute(0, 3, 1, 2).unsqueeze(2) / 127.5 - 1
        latents = (self._vae.encode(pixels).latent_dist.mode() - self._mean) / self._std
        return self._encoder.run(["latents"], {"image": image})[0], latents.numpy()


@pytest.fixture(scope="module")
def tiny_case(exported: Callable[..., Path], tiny_checkpoint: Path) -> Case:
    return Case(tiny_checkpoint, files_of(exported, Precision.FP32))


def files_of(exported: Callable[..., Path], precision: Precision) -> list[Path]:
    folder = exported(precision, *VAE_COMPONENTS)
    return [onnx_path(folder, each, precision) for each in VAE_COMPONENTS]


@pytest.fixture(scope="module")
def demo_case(slow, tmp_path_factory: pytest.TempPathFactory) -> Case:
    files = export_vae(open_checkpoint(DEMO_CHECKPOINT), tmp_path_factory.mktemp("demo_vae"), torch.float32)
    return Case(DEMO_CHECKPOINT, files)


@pytest.fixture(scope="module", params=["tiny_case", "demo_case"])
def case(request: pytest.FixtureRequest) -> Case:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(("rows", "height", "width"), SIZES)
def test_the_decoders_file_paints_diffusers_pixels(case, rows, height, width):
    shape = vae_inputs(QWEN_IMAGE, rows, height, width)["vae_decoder"]["latents"]
    image, expected = case.decoded(np.random.default_rng(0).standard_normal(shape, np.float32))
    assert image.dtype == np.uint8
    assert image.shape == expected.shape == (rows, height, width, 3)
    assert expected.std() > 0.05
    assert np.abs(image - expected * 255).max() <= 0.5 + 255 * TOLERANCE  # half a byte's step is rounding
    assert (image != np.round(expected * 255)).mean() < 1e-3


@pytest.mark.parametrize(("rows", "height", "width"), SIZES)
def test_the_encoders_file_gives_diffusers_latents(case, rows, height, width):
    shape = vae_inputs(QWEN_IMAGE, rows, height, width)["vae_encoder"]["image"]
    latents, expected = case.encoded(np.random.default_rng(0).integers(0, 256, shape, np.uint8))
    assert latents.dtype == np.float32
    assert latents.shape == expected.shape == (rows, 16, 1, height // 8, width // 8)
    assert expected.std() > 0.05
    assert np.abs(latents - expected).max() < TOLERANCE


def test_bfloat16_files_have_the_same_tensors_and_bfloat16_weights_beside_them(exported):
    for path in files_of(exported, Precision.BF16):
        graph = onnx.load(path, load_external_data=False).graph
        assert [tensor_of(value) for value in (*graph.input, *graph.output)] == INTERFACE[path.stem]
        kernels = {node.input[1] for node in graph.node if node.op_type == "Conv"}
        stored = [each for each in graph.initializer if each.name in kernels]
        assert len(stored) == len(kernels) > 20
        assert {onnx.TensorProto.DataType.Name(each.data_type) for each in stored} == {"BFLOAT16"}
        assert {len(each.dims) for each in stored} == {4}
        assert {pair.value for each in stored for pair in each.external_data if pair.key == "location"} == {
            f"{path.name}.data"
        }


def tensor_of(value: onnx.ValueInfoProto) -> tuple[str, str, list[int | None]]:
    tensor = value.type.tensor_type
    dims = [each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim]
    return value.name, onnx.TensorProto.DataType.Name(tensor.elem_type), dims
