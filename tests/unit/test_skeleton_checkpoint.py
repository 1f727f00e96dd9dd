"""A checkpoint's configurations without its weights: Qwen-Image's published size, and a tiny one."""

from __future__ import annotations

import pytest
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from build.skeleton_checkpoint import DIMENSIONS, write_skeleton
from build.tiny_checkpoint import SPECIAL_TOKENS
from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.errors import CheckpointError
from qwen_image.families import QWEN_IMAGE
from qwen_image.text.tokenizer import PromptTokenizer


@pytest.fixture(scope="module", params=DIMENSIONS)
def any_skeleton(request, tmp_path_factory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("skeletons") / request.param
    return open_checkpoint(write_skeleton(folder, dimensions=request.param), needs_weights=False)


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory) -> Checkpoint:
    return open_checkpoint(write_skeleton(tmp_path_factory.mktemp("skeleton") / "full"), needs_weights=False)


def parameters(module: torch.nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def test_it_holds_no_weights_and_is_small(any_skeleton):
    files = [path for path in any_skeleton.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    assert sum(path.stat().st_size for path in files) < 100_000


def test_who_needs_weights_does_not_open_it(any_skeleton):
    with pytest.raises(CheckpointError, match=r"transformer has no weights: .*load_format=dummy needs none"):
        open_checkpoint(any_skeleton.folder)


def test_its_tokenizer_reads_prompts_and_knows_the_configurations_special_tokens(any_skeleton):
    tokenize = PromptTokenizer.load(any_skeleton)
    assert len(tokenize("prompt", "a red circle")) > tokenize.template_tokens
    config = Qwen2_5_VLConfig.from_pretrained(any_skeleton.folder / "text_encoder")
    numbers = {name: SPECIAL_TOKENS.index(name) for name in SPECIAL_TOKENS}
    assert config.text_config.bos_token_id == numbers["<|endoftext|>"]
    assert config.text_config.eos_token_id == numbers["<|im_end|>"]
    assert config.image_token_id == numbers["<|image_pad|>"]
    assert config.vision_end_token_id == numbers["<|vision_end|>"]
    assert config.architectures == [QWEN_IMAGE.text_encoder_class]


def test_the_transformer_has_its_published_size(skeleton):
    with torch.device("meta"):
        transformer = QwenImageTransformer2DModel.from_config(skeleton.config("transformer"))
    assert round(parameters(transformer) / 1e9, 2) == 20.43


def test_the_text_encoder_has_the_size_of_qwen_2_5_vl_7b(skeleton):
    config = Qwen2_5_VLConfig.from_pretrained(skeleton.folder / "text_encoder")
    with torch.device("meta"):
        text_encoder = Qwen2_5_VLForConditionalGeneration(config)
    assert round(parameters(text_encoder) / 1e9, 2) == 8.29  # the model called 7B, its pictures' tower included
    assert text_encoder.lm_head.weight.shape == (152064, 3584)
    assert config.dtype is torch.bfloat16
    assert config.text_config.num_hidden_layers == 28
    assert config.text_config.rope_parameters["mrope_section"] == [16, 24, 24]


def test_the_vae_has_its_published_size_and_normalises(skeleton):
    with torch.device("meta"):
        vae = AutoencoderKLQwenImage.from_config(skeleton.config("vae"))
    assert round(parameters(vae) / 1e6) == 127
    assert len(vae.config.latents_mean) == len(vae.config.latents_std) == vae.config.z_dim == 16


def test_the_scheduler_is_the_tiny_checkpoints_which_is_the_published_one(skeleton, checkpoint):
    assert skeleton.config("scheduler") == checkpoint.config("scheduler")


def test_the_default_size_is_the_familys_unless_it_is_given(skeleton, tmp_path):
    assert skeleton.default_size == (1328, 1328)
    other = write_skeleton(tmp_path / "other", dimensions="tiny", default_size=(256, 512))
    assert open_checkpoint(other, needs_weights=False).default_size == (256, 512)
