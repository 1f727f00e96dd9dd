"""The noise schedule against diffusers' scheduler and its pipeline's shift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.qwenimage.pipeline_qwenimage import calculate_shift

from qwen_image.errors import CheckpointError
from qwen_image.sampling.schedule import UNSUPPORTED_OPTIONS, Schedule

PUBLISHED = {
    "use_dynamic_shifting": True,
    "base_shift": 0.5,
    "max_shift": 0.9,
    "base_image_seq_len": 256,
    "max_image_seq_len": 8192,
    "shift_terminal": 0.02,
}
LIGHTNING = PUBLISHED | {"base_shift": math.log(3), "max_shift": math.log(3), "shift_terminal": None}
CONFIGS = {
    "published": PUBLISHED,
    "lightning": LIGHTNING,
    "linear": PUBLISHED | {"time_shift_type": "linear"},
    "no terminal": PUBLISHED | {"shift_terminal": None},
    "static": {"use_dynamic_shifting": False, "shift": 3.0},
    "static with terminal": {"use_dynamic_shifting": False, "shift": 1.5, "shift_terminal": 0.1},
    "empty": {},
    "dynamic by the classes' fallbacks": {"use_dynamic_shifting": True},
}
SIDES = [(64, 64), (512, 512), (1024, 1024), (1328, 1328), (1664, 928), (2048, 2048)]


def image_tokens(width: int, height: int) -> int:
    return (width // 16) * (height // 16)


def reference(config, steps, tokens, sigmas=None):
    """As QwenImagePipeline.__call__ asks its scheduler."""
    scheduler = FlowMatchEulerDiscreteScheduler.from_config(dict(config))
    mu = calculate_shift(
        tokens,
        scheduler.config.get("base_image_seq_len", 256),
        scheduler.config.get("max_image_seq_len", 4096),
        scheduler.config.get("base_shift", 0.5),
        scheduler.config.get("max_shift", 1.15),
    )
    given = np.linspace(1.0, 1 / steps, steps) if sigmas is None else sigmas
    scheduler.set_timesteps(sigmas=given, mu=mu)
    return scheduler.sigmas.numpy()


@pytest.mark.parametrize("size", SIDES, ids=str)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_sigmas_equal_diffusers_for_every_step_count(config, size):
    schedule, tokens = Schedule.from_config(config), image_tokens(*size)
    for steps in (2, 3, 4, 7, 8, 10, 20, 28, 30, 49, 50, 51, 99, 100, 150, 200):
        sigmas = schedule.sigmas(num_inference_steps=steps, image_tokens=tokens)
        assert sigmas.dtype == np.float32
        assert sigmas.shape == (steps + 1,)
        np.testing.assert_allclose(sigmas, reference(config, steps, tokens), rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    "given", [(1.0, 0.7, 0.45, 0.1), (0.8, 0.5, 0.2), (0.5,), tuple(np.linspace(1, 0.01, 60))], ids=len
)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_given_sigmas_are_shifted_as_diffusers_shifts_them(config, given):
    sigmas = Schedule.from_config(config).sigmas(num_inference_steps=50, image_tokens=4096, sigmas=given)
    np.testing.assert_allclose(sigmas, reference(config, 50, 4096, list(given)), rtol=0, atol=2e-7)


@pytest.mark.parametrize(("size", "mu"), [((1024, 1024), 0.6935), ((1328, 1328), 0.8343)], ids=["1024", "1328"])
def test_the_published_shift_at_known_sizes(size, mu):
    assert Schedule.from_config(PUBLISHED).mu(image_tokens(*size)) == pytest.approx(mu, abs=5e-5)


@pytest.mark.parametrize("steps", [4, 8])
def test_lightning_shifts_by_three_at_every_size(steps):
    schedule = Schedule.from_config(LIGHTNING)
    plain = np.linspace(1, 1 / steps, steps)
    for size in SIDES:
        sigmas = schedule.sigmas(num_inference_steps=steps, image_tokens=image_tokens(*size))
        np.testing.assert_allclose(sigmas[:-1], 3 * plain / (1 + 2 * plain), rtol=1e-6)


def test_the_last_sigma_but_one_is_the_configured_terminal():
    sigmas = Schedule.from_config(PUBLISHED).sigmas(num_inference_steps=50, image_tokens=6889)
    assert sigmas[0] == 1
    assert sigmas[-2] == pytest.approx(0.02, abs=1e-6)
    assert sigmas[-1] == 0


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("steps", [1, 2, 13, 200])
def test_sigmas_are_finite_and_fall(config, steps):
    sigmas = Schedule.from_config(config).sigmas(num_inference_steps=steps, image_tokens=6889)
    assert np.isfinite(sigmas).all()
    assert (np.diff(sigmas) < 0).all()


def test_one_step_goes_from_noise_to_the_picture():
    """Where diffusers divides zero by zero."""
    sigmas = Schedule.from_config(PUBLISHED).sigmas(num_inference_steps=1, image_tokens=6889)
    assert sigmas.tolist() == [1, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"base_shift": 0.1},
        {"max_shift": 1.3},
        {"base_image_seq_len": 64},
        {"max_image_seq_len": 5000},
        {"shift_terminal": 0.2},
        {"time_shift_type": "linear"},
        {"use_dynamic_shifting": False, "shift": 2.5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_value_is_read_from_the_config(change):
    config = PUBLISHED | change
    changed = Schedule.from_config(config).sigmas(num_inference_steps=20, image_tokens=1024)
    published = Schedule.from_config(PUBLISHED).sigmas(num_inference_steps=20, image_tokens=1024)
    assert np.abs(changed - published).max() > 1e-3
    np.testing.assert_allclose(changed, reference(config, 20, 1024), rtol=0, atol=2e-7)


@pytest.mark.parametrize("option", UNSUPPORTED_OPTIONS)
def test_an_option_that_is_not_implemented_is_refused_by_name(option):
    assert Schedule.from_config(PUBLISHED | {option: False}) == Schedule.from_config(PUBLISHED)
    with pytest.raises(CheckpointError, match=option):
        Schedule.from_config(PUBLISHED | {option: True})


def test_an_unknown_time_shift_is_refused_with_what_is_allowed():
    with pytest.raises(CheckpointError, match=r"time_shift_type='cosine' must be 'exponential' or 'linear'"):
        Schedule.from_config(PUBLISHED | {"time_shift_type": "cosine"})


def test_the_tiny_checkpoints_own_configuration_is_the_published_one(checkpoint):
    assert Schedule.from_config(checkpoint.config("scheduler")) == Schedule.from_config(PUBLISHED)
