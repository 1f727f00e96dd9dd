"""Random weights in place of a checkpoint's: the same every time, of a sensible scale, and no file is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from build.skeleton_checkpoint import write_skeleton
from qwen_image.checkpoint import Checkpoint, LoadFormat, open_checkpoint
from qwen_image.dit.block import Block
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.vae.vae import VaeDecoder, VaeEncoder, load_vae

CONFIG = {
    "num_layers": 60,
    "num_attention_heads": 8,
    "attention_head_dim": 64,
    "in_channels": 64,
    "out_channels": 16,
    "joint_attention_dim": 64,
    "axes_dims_rope": (8, 28, 28),
    "patch_size": 2,
}


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory) -> Checkpoint:
    folder = write_skeleton(tmp_path_factory.mktemp("skeleton") / "tiny", dimensions="tiny")
    return open_checkpoint(folder, needs_weights=False)


@pytest.fixture
def with_broken_files(skeleton, tmp_path) -> Checkpoint:
    """Files of weights that nobody could read."""
    folder = Path(shutil.copytree(skeleton.folder, tmp_path / "broken"))
    for component in ("transformer", "vae"):
        (folder / component / "diffusion_pytorch_model.safetensors").write_bytes(b"no tensors")
    return open_checkpoint(folder, needs_weights=False)


def batch(dim: int = 64) -> Batch:
    generator = torch.Generator().manual_seed(0)
    tokens, embeds = (torch.randn(shape, generator=generator) for shape in ((1, 16, 64), (1, 8, dim)))
    return Batch(tokens, torch.tensor([0.7]), embeds, None, (4, 4))


def test_a_block_is_the_same_every_time_and_another_is_another():
    weights = DummyWeights(CONFIG)
    first, again, other = (weights.block(index, torch.bfloat16) for index in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["attn.to_q.weight"], other["attn.to_q.weight"])
    assert {each.dtype for each in first.values()} == {torch.bfloat16}


def test_norms_are_ones_and_nothing_else_is():
    weights = DummyWeights(CONFIG)
    tensors = weights.block(0, torch.float32) | weights.outside_blocks(torch.float32)
    ones = {name for name, each in tensors.items() if (each == 1).all()}
    norms = {f"attn.norm_{added}{side}.weight" for added in ("", "added_") for side in "qk"}
    assert ones == norms | {"txt_norm.weight"}


@torch.inference_mode()
def test_sixty_blocks_in_bfloat16_neither_blow_up_nor_stand_still():
    weights, generator = DummyWeights(CONFIG), torch.Generator().manual_seed(0)
    size = weights.dimensions
    image, text, temb = (
        torch.randn(shape, generator=generator).to(torch.bfloat16)
        for shape in ((1, 16, size.dim), (1, 8, size.dim), (1, size.dim))
    )
    start = image
    rotary = {tokens: torch.stack([torch.ones(tokens, 32), torch.zeros(tokens, 32)]) for tokens in (16, 8)}
    for index in range(size.num_layers):
        with torch.device("meta"):
            block = Block(size.dim, size.heads)
        block.load_state_dict(weights.block(index, torch.bfloat16), assign=True)
        gates = block.img_mod(temb).unflatten(-1, (6, -1))[:, 2::3]
        assert 0.01 < gates.float().std() < 1
        image, text = block(image, text, None, temb, rotary[16], rotary[8])
    assert 0.5 < image.float().std() < 5
    assert 0.5 < text.float().std() < 5
    assert (image - start).float().std() > 0.1


def test_a_transformer_of_random_weights_computes_the_same_every_time(skeleton):
    one, other = (load_transformer(skeleton, load_format=LoadFormat.DUMMY).velocity(batch()) for _ in range(2))
    assert torch.equal(one, other)
    assert one.isfinite().all()
    assert one.std() > 0.01


def test_the_vae_of_random_weights_paints_within_the_range_of_pixels(skeleton):
    noise = np.random.default_rng(0).standard_normal((1, 16, 1, 16, 16), np.float32)
    one, other = (VaeDecoder(skeleton, load_format=LoadFormat.DUMMY).decode(noise) for _ in range(2))
    assert one.shape == (1, 128, 128, 3)
    assert np.array_equal(one, other)
    assert one.std() > 5
    assert ((one == 0) | (one == 255)).mean() < 0.1


def test_the_vae_of_random_weights_reads_pictures(skeleton):
    picture = np.random.default_rng(0).integers(0, 256, (1, 64, 96, 3), np.uint8)
    mean, deviation = VaeEncoder(skeleton, load_format=LoadFormat.DUMMY).encode(picture)
    assert mean.shape == deviation.shape == (1, 16, 1, 8, 12)
    assert np.isfinite(mean).all()
    assert mean.std() > 0.01
    assert (deviation > 0).all()
    assert deviation.max() < 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_vae_is_made_in_the_dtype_that_is_asked_for(skeleton, dtype):
    assert {each.dtype for each in load_vae(skeleton, dtype, LoadFormat.DUMMY).parameters()} == {dtype}


def test_files_that_are_there_are_not_read(with_broken_files, skeleton):
    found, wanted = (
        load_transformer(each, load_format=LoadFormat.DUMMY).velocity(batch()) for each in (with_broken_files, skeleton)
    )
    assert torch.equal(found, wanted)
    load_vae(with_broken_files, torch.float32, LoadFormat.DUMMY)
