"""Tokens and picture-shaped latents against the pipeline's own packing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import QwenImagePipeline

from qwen_image.sampling.latents import pack_latents, unpack_latents

SIZES = [(8, 8), (8, 12), (20, 10), (166, 166), (2, 2)]


def latents_of(height: int, width: int, channels: int = 16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((channels, 1, height, width), np.float32)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_packing_equals_the_pipelines(height, width):
    latents = latents_of(height, width)
    expected = QwenImagePipeline._pack_latents(torch.from_numpy(latents)[None, :, 0], 1, 16, height, width)
    assert np.array_equal(pack_latents(latents), expected[0].numpy())


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_unpacking_equals_the_pipelines(height, width):
    tokens = np.random.default_rng(1).standard_normal((height * width // 4, 64), np.float32)
    expected = QwenImagePipeline._unpack_latents(torch.from_numpy(tokens)[None], height * 8, width * 8, 8)
    assert np.array_equal(unpack_latents(tokens, height, width), expected[0].numpy())


@pytest.mark.parametrize("channels", [4, 16])
@pytest.mark.parametrize(("height", "width"), SIZES)
def test_packing_then_unpacking_changes_nothing(height, width, channels):
    latents = latents_of(height, width, channels)
    assert np.array_equal(unpack_latents(pack_latents(latents), height, width), latents)


def test_both_layouts_are_contiguous_float32():
    tokens = pack_latents(latents_of(8, 12).astype(np.float64))
    latents = unpack_latents(tokens, 8, 12)
    assert (tokens.dtype, tokens.shape, tokens.flags.c_contiguous) == (np.float32, (24, 64), True)
    assert (latents.dtype, latents.shape, latents.flags.c_contiguous) == (np.float32, (16, 1, 8, 12), True)


def test_latents_of_another_size_are_not_unpacked():
    with pytest.raises(ValueError, match="reshape"):
        unpack_latents(np.zeros((24, 64), np.float32), 8, 8)
