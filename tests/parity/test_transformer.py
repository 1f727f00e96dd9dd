"""The transformer of our own blocks against diffusers' whole model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from diffusers import QwenImageTransformer2DModel

from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision

DEMO = Path(__file__).resolve().parents[2] / "demo" / "checkpoint"


@pytest.fixture(params=["tiny", "demo"])
def folder(request, tiny_checkpoint) -> Path:
    return tiny_checkpoint if request.param == "tiny" else DEMO


def batch(folder: Path, grid: tuple[int, int], text_lengths: tuple[int, ...]) -> Batch:
    generator = torch.Generator().manual_seed(grid[1])
    rows, dim = len(text_lengths), open_checkpoint(folder).prompt_embeds_dim
    mask = torch.arange(max(text_lengths))[None] < torch.tensor(text_lengths)[:, None]
    embeds = torch.randn(rows, max(text_lengths), dim, generator=generator) * mask[..., None]
    return Batch(
        torch.randn(rows, grid[0] * grid[1], 64, generator=generator),
        torch.linspace(1, 0.1, rows),
        embeds,
        None if mask.all() else mask,
        grid,
    )


def by_diffusers(folder: Path, batch: Batch, dtype: torch.dtype) -> torch.Tensor:
    transformer = QwenImageTransformer2DModel.from_pretrained(folder / "transformer", torch_dtype=dtype).eval()
    with torch.inference_mode():
        return transformer(
            hidden_states=batch.tokens.to(dtype),
            timestep=batch.sigma.to(dtype),
            encoder_hidden_states=batch.prompt_embeds.to(dtype),
            encoder_hidden_states_mask=batch.prompt_embeds_mask,
            img_shapes=[[(1, *batch.grid)]] * len(batch.tokens),
            return_dict=False,
        )[0].float()


@pytest.mark.parametrize("grid", [(4, 4), (8, 5), (5, 16)], ids=str)
@pytest.mark.parametrize("text_lengths", [(7,), (12, 12), (20, 1, 9)], ids=str)
def test_float32_is_diffusers(folder, grid, text_lengths):
    given = batch(folder, grid, text_lengths)
    found = load_transformer(open_checkpoint(folder)).velocity(given)
    assert (found - by_diffusers(folder, given, torch.float32)).abs().max() < 1e-4


def test_bfloat16_is_as_near_to_float32_as_diffusers_is(folder):
    given = batch(folder, (8, 8), (20, 9))
    exact = by_diffusers(folder, given, torch.float32)
    found = load_transformer(open_checkpoint(folder), precision=Precision.BF16).velocity(given)
    assert apart(found, exact) < 1.5 * apart(by_diffusers(folder, given, torch.bfloat16), exact)


def test_fp8_is_near_and_not_the_same(folder):
    given = batch(folder, (8, 8), (20, 9))
    exact = load_transformer(open_checkpoint(folder), precision=Precision.BF16).velocity(given)
    found = load_transformer(open_checkpoint(folder), precision=Precision.FP8).velocity(given)
    assert 1e-4 < apart(found, exact) < 0.1


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return ((left - right).norm() / right.norm()).item()


@pytest.mark.parametrize("zero_cond_t", [False, True], ids=["plain", "zero_cond_t"])
@pytest.mark.parametrize("reference_grids", [((4, 6),), ((6, 4), (3, 9), (2, 2))], ids=["one", "three"])
def test_references_are_what_diffusers_makes_of_them(tmp_path, zero_cond_t, reference_grids):
    folder = tmp_path / "checkpoint"
    write_tiny_checkpoint(folder, pipeline="QwenImageEditPlusPipeline", zero_cond_t=zero_cond_t)
    plain = batch(folder, (5, 8), (20, 9))
    tokens = sum(rows * columns for rows, columns in reference_grids)
    given = replace(plain, references=torch.randn(2, tokens, 64), reference_grids=reference_grids)
    transformer = QwenImageTransformer2DModel.from_pretrained(folder / "transformer").eval()
    with torch.inference_mode():
        expected = transformer(
            hidden_states=torch.cat([given.tokens, given.references], dim=1),
            timestep=given.sigma,
            encoder_hidden_states=given.prompt_embeds,
            encoder_hidden_states_mask=given.prompt_embeds_mask,
            img_shapes=[[(1, 5, 8), *((1, *grid) for grid in reference_grids)]] * 2,
            return_dict=False,
        )[0][:, :40]
    loaded = load_transformer(open_checkpoint(folder))
    found = loaded.velocity(given)
    assert (found - expected).abs().max() < 1e-4
    assert (found - loaded.velocity(plain)).abs().max() > 1e-3
