"""The text encoder's states against transformers on the same checkpoint, in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import QwenImagePipeline

from tests.parity import text_states

PROMPTS = ["a star", "two small green triangles left of one large purple star " * 8, "七颗星星 🌟", "a sign: 'HELLO'\n"]


@pytest.fixture(scope="module")
def pipeline(tiny_checkpoint):
    return QwenImagePipeline.from_pretrained(tiny_checkpoint)


def encode(server, prompts):
    """prompt_embeds and their mask for the prompts as rows of one request."""
    states = text_states.encode(server, prompts, None)
    return states["prompt_embeds"], states["prompt_embeds_mask"]


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_a_prompts_states_equal_transformers(server, pipeline, prompt):
    states, mask = encode(server, [prompt])
    with torch.no_grad():
        expected, _ = pipeline.encode_prompt(prompt)
    assert mask.all()
    assert np.abs(states - expected.numpy()).max() < 1e-4


def test_rows_of_unequal_length_are_padded_with_zeros_and_masked(server, pipeline):
    states, mask = encode(server, PROMPTS)
    for row, prompt in enumerate(PROMPTS):
        with torch.no_grad():
            expected, _ = pipeline.encode_prompt(prompt)
        length = expected.shape[1]
        assert mask[row].tolist() == [True] * length + [False] * (mask.shape[1] - length)
        assert np.abs(states[row, :length] - expected[0].numpy()).max() < 1e-4
        assert not states[row, length:].any()
