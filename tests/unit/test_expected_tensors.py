"""What a configuration is said to ask for is what diffusers and transformers build from it."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from build.skeleton_checkpoint import write_skeleton
from qwen_image.checkpoint import open_checkpoint
from qwen_image.checkpoint.expected_tensors import expected_shapes, transformer_shapes
from qwen_image.checkpoint.expected_vae_tensors import vae_shapes

DEMO = Path(__file__).parents[2] / "demo"


@pytest.fixture(scope="module", params=["published", "demo", "tiny"])
def folder(request, tiny_edit_plus_checkpoint, tmp_path_factory) -> Path:
    if request.param == "published":
        return write_skeleton(tmp_path_factory.mktemp("skeleton") / "published")
    return {"demo": DEMO / "checkpoint", "tiny": tiny_edit_plus_checkpoint}[request.param]


def shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("component", ["transformer", "vae", "text_encoder"])
def test_every_tensor_of_the_model_and_no_other_is_expected(folder, component):
    config = open_checkpoint(folder, needs_weights=False).config(component)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if component == "text_encoder":
            module = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config))
        else:
            classes = {"transformer": QwenImageTransformer2DModel, "vae": AutoencoderKLQwenImage}
            module = classes[component].from_config(config)
    wanted = {name: shape for name, shape in shapes(module).items() if name != "lm_head.weight"}
    assert expected_shapes(component, config) == wanted


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"base_dim": 8, "attn_scales": [1.0, 0.25], "num_res_blocks": 3},
        {"base_dim": 8, "temperal_downsample": [True, False], "dim_mult": [1, 3, 2], "input_channels": 4, "z_dim": 6},
    ],
)
def test_of_a_vae_every_number_counts_and_its_defaults_are_diffusers(config):
    with torch.device("meta"):
        assert vae_shapes(config) == shapes(AutoencoderKLQwenImage(**config))


def test_of_a_transformer_patch_and_channels_count():
    config = {"num_layers": 1, "attention_head_dim": 32, "num_attention_heads": 3, "joint_attention_dim": 48}
    config |= {"in_channels": 36, "out_channels": 9, "patch_size": 3, "axes_dims_rope": (8, 12, 12)}
    with torch.device("meta"):
        assert transformer_shapes(config) == shapes(QwenImageTransformer2DModel(**config))
