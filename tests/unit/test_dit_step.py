"""Rows advanced in batches: grouping, budgets, failures, and the numbers of diffusers' pipeline."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from qwen_image.dit.conditioning import Conditioning
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.dit.step import StepRow, advance, draw_noise, guide, pad_texts
from qwen_image.sampling.schedule import Schedule

CHANNELS = 64
TEXT_DIM = 64
NO_LIMIT = 1 << 30
SQUARE, WIDE = (4, 4), (4, 8)


def states(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, TEXT_DIM, generator=torch.Generator().manual_seed(seed))


def row(
    seed: int = 0,
    *,
    grid: tuple[int, int] = SQUARE,
    sigmas: tuple[float, ...] = (1.0, 0.8),
    text: int = 7,
    negative: int = 0,
    scale: float = 4.0,
    latents: torch.Tensor | None = None,
) -> StepRow:
    return StepRow(latents, seed, grid, sigmas, Conditioning(states(text, seed), states(negative, seed + 500)), scale)


class FakeEngine:
    """Gives back how noisy a row is, and remembers the batches; fails on one size."""

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, fails_on: tuple[int, int] | None = None, most_rows: int = NO_LIMIT) -> None:
        self.batches: list[Batch] = []
        self._fails_on = fails_on
        self._most_rows = most_rows

    def max_rows(self, image_tokens: int) -> int:
        return self._most_rows

    def velocity(self, batch: Batch) -> torch.Tensor:
        self.batches.append(batch)
        if batch.grid == self._fails_on:
            raise RuntimeError("out of memory")
        return batch.sigma[:, None, None].expand_as(batch.tokens).clone()


def results(rows, engine):
    """Every row's latents or error, in the rows' order."""
    found = {}
    for positions, advanced in advance(rows, engine, CHANNELS):
        for index, position in enumerate(positions):
            assert position not in found
            found[position] = advanced if isinstance(advanced, Exception) else advanced[index]
    return [found[position] for position in range(len(rows))]


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    assert left.shape == right.shape
    return (left - right).abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("grid", [SQUARE, WIDE, (10, 5), (83, 83)], ids=str)
@pytest.mark.parametrize("seed", [0, 11, 2**53 - 1, 2**63 - 1])
def test_noise_is_the_noise_that_diffusers_draws(pipeline, dtype, grid, seed):
    generator = torch.Generator().manual_seed(seed)
    expected = pipeline.prepare_latents(1, 16, grid[0] * 16, grid[1] * 16, dtype, "cpu", generator)
    assert torch.equal(draw_noise(seed, grid, CHANNELS, dtype), expected[0].float())


def test_a_row_without_latents_starts_from_its_seeds_noise():
    (advanced,) = results([row(3, sigmas=(1.0, 0.25))], FakeEngine())
    assert apart(advanced, draw_noise(3, SQUARE, CHANNELS, torch.float32) - 0.75) < 1e-6


def test_given_latents_are_where_the_row_goes_on_from():
    latents = torch.full((16, CHANNELS), 2.0)
    (advanced,) = results([row(3, sigmas=(0.5, 0.25), latents=latents)], FakeEngine())
    assert torch.equal(advanced, latents - 0.125)
    assert (latents == 2).all()


def test_guidance_is_the_pipelines_formula_with_a_scale_of_its_own_a_row():
    positive, negative = torch.randn(2, 3, 16, CHANNELS, generator=torch.Generator().manual_seed(0))
    scales = [1.5, 4.0, 9.0]
    guided = guide(positive, negative, torch.tensor(scales))
    for each, noise_pred, neg_noise_pred, true_cfg_scale in zip(guided, positive, negative, scales, strict=True):
        comb_pred = neg_noise_pred + true_cfg_scale * (noise_pred - neg_noise_pred)
        cond_norm = torch.norm(noise_pred, dim=-1, keepdim=True)
        noise_norm = torch.norm(comb_pred, dim=-1, keepdim=True)
        assert apart(each, comb_pred * (cond_norm / noise_norm)) < 1e-6


@pytest.mark.parametrize("scale", [1.0, 4.0, 9.5])
@pytest.mark.parametrize("negative", [0, 3, 12], ids=["unguided", "shorter", "longer"])
def test_a_whole_walk_equals_the_pipeline(pipeline, checkpoint, engine, negative, scale):
    walked = row(5, grid=WIDE, text=8, negative=negative, scale=scale)
    given = {"negative_prompt_embeds": walked.conditioning.negative_embeds[None]} if negative else {}
    masks = {f"{name}_mask": torch.ones(1, each.shape[1], dtype=torch.long) for name, each in given.items()}
    expected = pipeline(
        prompt_embeds=walked.conditioning.embeds[None],
        prompt_embeds_mask=torch.ones(1, 8, dtype=torch.long),
        **given,
        **masks,
        true_cfg_scale=scale,
        height=WIDE[0] * 16,
        width=WIDE[1] * 16,
        num_inference_steps=4,
        generator=torch.Generator().manual_seed(5),
        output_type="latent",
    ).images[0]
    schedule = Schedule.from_config(checkpoint.config("scheduler"))
    sigmas = tuple(schedule.sigmas(num_inference_steps=4, image_tokens=32).tolist())
    guided = negative if scale > 1 else 0  # the sampler leaves the negative states out where they have no part
    (advanced,) = results([row(5, grid=WIDE, text=8, negative=guided, scale=scale, sigmas=sigmas)], engine)
    assert apart(advanced, expected) < 1e-5


def test_masks_of_ten_and_twenty_in_a_width_of_thirty_two():
    texts = [states(length, length) for length in (10, 20, 32)]
    padded, mask = pad_texts(texts, torch.device("cpu"), torch.float32)
    assert padded.shape == (3, 32, TEXT_DIM)
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [10, 20, 32]
    for position, text in enumerate(texts):
        assert torch.equal(padded[position, : len(text)], text)
        assert not padded[position, len(text) :].any()
        assert not mask[position, len(text) :].any()


def test_texts_of_one_length_need_no_mask():
    texts = [states(9, 1), states(9, 2)]
    padded, mask = pad_texts(texts, torch.device("cpu"), torch.bfloat16)
    assert mask is None
    assert torch.equal(padded, torch.stack(texts).bfloat16())


def test_a_texts_padding_changes_no_velocity(engine):
    texts = [states(10, 1), states(20, 2)]
    padded, mask = pad_texts([*texts, states(32)], engine.device, engine.dtype)
    tokens = torch.stack([draw_noise(seed, SQUARE, CHANNELS, torch.float32) for seed in (1, 2)])
    sigma = torch.tensor([0.9, 0.4])
    in_32 = engine.velocity(Batch(tokens, sigma, padded[:2], mask[:2], SQUARE))
    for position, text in enumerate(texts):
        one = slice(position, position + 1)
        alone = engine.velocity(Batch(tokens[one], sigma[one], text[None], None, SQUARE))
        assert apart(in_32[position], alone[0]) < 1e-5


def test_rows_are_batched_by_size_and_step_count():
    rows = [
        row(0),
        row(1, grid=WIDE),
        row(2, sigmas=(1.0, 0.8, 0.6)),
        row(3, sigmas=(0.3, 0.1)),
        row(4, grid=WIDE),
        row(5, sigmas=(0.9, 0.5, 0.0)),
    ]
    batches = [positions for positions, _ in advance(rows, FakeEngine(), CHANNELS)]
    assert sorted(batches) == [[0, 3], [1, 4], [2, 5]]


def test_every_row_goes_from_its_own_sigma_to_its_own_sigma():
    rows = [row(seed, sigmas=sigmas) for seed, sigmas in enumerate([(1.0, 0.5), (0.5, 0.0), (0.25, 0.125)])]
    advanced = results(rows, FakeEngine())
    for each, (seed, moved) in zip(advanced, enumerate([-0.5, -0.25, -0.03125]), strict=True):
        assert apart(each, draw_noise(seed, SQUARE, CHANNELS, torch.float32) + moved) < 1e-6


def test_guided_and_unguided_rows_share_a_batch_and_only_the_guided_are_computed_twice():
    engine = FakeEngine()
    results([row(0), row(1, negative=3), row(2), row(3, negative=5)], engine)
    (batch,) = engine.batches
    assert batch.tokens.shape == (6, 16, CHANNELS)
    assert batch.prompt_embeds_mask.sum(1).tolist() == [7, 7, 7, 7, 3, 5]
    assert torch.equal(batch.tokens[4:], batch.tokens[[1, 3]])


@pytest.mark.parametrize(
    ("negatives", "most_rows", "batches"),
    [
        ([0, 0, 0, 0, 0], 3, [[0, 1, 2], [3, 4]]),
        ([0, 0, 0, 0, 0], 2, [[0, 1], [2, 3], [4]]),
        ([2, 2, 2], 4, [[0, 1], [2]]),
        ([2, 0, 2, 0], 3, [[0, 1], [2, 3]]),
        ([0, 0, 2], 3, [[0, 1], [2]]),
        ([2, 2], 1, [[0], [1]]),
        ([0, 0], 0, [[0], [1]]),
        ([0, 0], 2, [[0, 1]]),
    ],
)
def test_a_batch_has_no_more_rows_than_the_engine_allows_and_a_row_is_never_split(negatives, most_rows, batches):
    rows = [row(seed, negative=negative) for seed, negative in enumerate(negatives)]
    advanced = advance(rows, FakeEngine(most_rows=most_rows), CHANNELS)
    assert [positions for positions, _ in advanced] == batches


def test_no_rows_are_no_batches():
    assert list(advance([], FakeEngine(), CHANNELS)) == []


def test_a_batch_that_fails_takes_no_other_along():
    rows = [row(0), row(1, grid=WIDE), row(2), row(3, grid=(8, 4)), row(4, grid=WIDE)]
    found = results(rows, FakeEngine(fails_on=WIDE))
    assert [isinstance(each, Exception) for each in found] == [False, True, False, False, True]
    assert str(found[1]) == "out of memory"


def test_a_row_whose_latents_do_not_fit_takes_no_other_batch_along():
    rows = [row(0), row(1, grid=WIDE, latents=torch.zeros(5, 3)), row(2, grid=(8, 4)), row(3, grid=WIDE)]
    found = results(rows, FakeEngine())
    assert [isinstance(each, Exception) for each in found] == [False, True, False, True]


@pytest.mark.parametrize("negative", [0, 4], ids=["unguided", "guided"])
def test_several_sigmas_in_one_call_equal_calls_of_one_each(engine, negative):
    sigmas = (1.0, 0.7, 0.4, 0.0)
    (at_once,) = results([row(1, negative=negative, sigmas=sigmas)], engine)
    latents = None
    for window in pairwise(sigmas):
        (latents,) = results([row(1, negative=negative, sigmas=window, latents=latents)], engine)
    assert apart(at_once, latents) < 1e-6


MIXED = [
    {"text": 7},
    {"text": 31, "negative": 5, "scale": 7.5, "sigmas": (0.6, 0.5)},
    {"text": 12, "negative": 40, "sigmas": (0.2, 0.0)},
    {"text": 3, "sigmas": (0.9, 0.1)},
    {"text": 7, "grid": WIDE, "negative": 7},
    {"text": 20, "grid": WIDE},
    {"text": 90, "sigmas": (1.0, 0.5, 0.25)},
    {"text": 5, "negative": 1, "sigmas": (0.8, 0.3, 0.0), "scale": 2.0},
]


@pytest.mark.parametrize("max_batch_tokens", [NO_LIMIT, 64])
def test_a_row_is_the_same_alone_and_in_company(checkpoint, max_batch_tokens):
    engine = load_transformer(checkpoint, max_batch_tokens=max_batch_tokens)
    rows = [row(seed, **values) for seed, values in enumerate(MIXED)]
    for position, together in enumerate(results(rows, engine)):
        (alone,) = results([rows[position]], engine)
        assert apart(together, alone) < 1e-5


def test_the_transformer_sees_what_a_row_asks_for(engine):
    """What makes the comparisons above mean something."""
    plain, *others = results(
        [row(1), row(2), row(1, text=8), row(1, negative=4), row(1, negative=4, scale=9.0), row(1, sigmas=(0.9, 0.7))],
        engine,
    )
    assert all(apart(plain, other) > 1e-3 for other in others)
    assert apart(others[2], others[3]) > 1e-3
