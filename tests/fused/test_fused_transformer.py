"""The fused transformer against the plain one, which is compared with diffusers elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qwen_image.dit.blocks import TorchBlocks
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.engine import Batch
from qwen_image.dit.fused.transformer import FusedTransformer, text_bucket, text_buckets
from qwen_image.dit.precision import Precision
from qwen_image.dit.transformer import Transformer

CONFIG = {
    "num_layers": 2,
    "num_attention_heads": 3,
    "attention_head_dim": 32,
    "in_channels": 64,
    "out_channels": 16,
    "joint_attention_dim": 64,
    "axes_dims_rope": (8, 12, 12),
    "patch_size": 2,
}


def weights(*, zero_cond_t: bool = False) -> DummyWeights:
    return DummyWeights({**CONFIG, "zero_cond_t": zero_cond_t})


def fused(precision: Precision, device: str, *, zero_cond_t: bool = False) -> FusedTransformer:
    made = weights(zero_cond_t=zero_cond_t)
    return FusedTransformer(made, precision=precision, device=device, max_batch_tokens=1000)


def plain(precision: Precision, device: str, *, zero_cond_t: bool = False) -> Transformer:
    made = weights(zero_cond_t=zero_cond_t)
    return Transformer(made, TorchBlocks(made, precision=precision, device=device))


def batch(text_lengths: tuple[int, ...], device: str, *, references: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(len(text_lengths))
    rows, longest = len(text_lengths), max(text_lengths)
    mask = torch.arange(longest)[None] < torch.tensor(text_lengths)[:, None]
    embeds = torch.randn(rows, longest, 64, generator=generator) * mask[..., None]
    return Batch(
        torch.randn(rows, 24, 64, generator=generator).to(device),
        torch.linspace(1, 0.1, rows),
        embeds.to(device),
        None if mask.all() else mask.to(device),
        (4, 6),
        torch.randn(rows, 12, 64, generator=generator).to(device) if references else None,
        ((3, 4),) if references else (),
    )


@pytest.mark.parametrize("text_lengths", [(7,), (20, 20), (33, 1)], ids=str)
def test_float32_is_the_plain_transformer(device, text_lengths):
    given = batch(text_lengths, device)
    wanted = plain(Precision.FP32, device).velocity(given)
    assert apart(fused(Precision.FP32, device).velocity(given), wanted) < 1e-5


@pytest.mark.parametrize("zero_cond_t", [False, True])
def test_references_are_seen_and_modulated_as_the_checkpoint_wants(device, zero_cond_t):
    given = batch((9, 4), device, references=True)
    wanted = plain(Precision.FP32, device, zero_cond_t=zero_cond_t).velocity(given)
    found = fused(Precision.FP32, device, zero_cond_t=zero_cond_t).velocity(given)
    assert found.shape == given.tokens.shape
    assert apart(found, wanted) < 1e-5


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP8])
def test_lower_precision_is_as_near_to_float32_as_the_plain_transformer(device, precision):
    given = batch((20, 9), device)
    exact = plain(Precision.FP32, device).velocity(given)
    theirs = apart(plain(precision, device).velocity(given), exact)
    assert apart(fused(precision, device).velocity(given), exact) < 2 * theirs


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP8])
def test_a_feed_forward_layer_in_parts_is_the_same_layer(device, precision, monkeypatch):
    given = batch((20, 9), device)
    whole = fused(precision, device).velocity(given)
    monkeypatch.setattr("qwen_image.dit.fused.block.FEED_FORWARD_ROWS", 18)
    assert apart(fused(precision, device).velocity(given), whole) < 1e-6


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP8])
def test_what_stands_where_text_is_padded_changes_nothing(device, precision):
    transformer, given = fused(precision, device), batch((20, 9), device)
    noise = torch.randn_like(given.prompt_embeds) * 30
    padded = torch.where(given.prompt_embeds_mask[..., None], given.prompt_embeds, noise)
    found = transformer.velocity(replace(given, prompt_embeds=padded))
    assert torch.equal(found, transformer.velocity(given))


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP8])
def test_a_row_does_not_depend_on_its_batch(device, precision):
    transformer, given = fused(precision, device), batch((33, 1), device)
    together = transformer.velocity(given)
    for row in range(2):
        alone = Batch(
            given.tokens[row : row + 1],
            given.sigma[row : row + 1],
            given.prompt_embeds[row : row + 1],
            given.prompt_embeds_mask[row : row + 1],
            given.grid,
        )
        assert apart(transformer.velocity(alone), together[row : row + 1]) < (1e-5 if precision == "fp32" else 1e-2)


def test_texts_are_padded_to_few_lengths_and_little():
    buckets = text_buckets(1024)
    assert len(buckets) == 10
    assert buckets[-1] == 1024
    assert all(tokens <= text_bucket(tokens) < tokens + 128 for tokens in range(1, 1025))


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).norm() / right.norm())
