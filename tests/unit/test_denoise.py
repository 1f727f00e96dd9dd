"""The denoising loop of one image, and several of them in step."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from qwen_image.sampling.denoise import State, denoise, steps_per_call, together

PICTURE = np.random.default_rng(0).standard_normal((6, 64), np.float32)
NOISE = np.random.default_rng(1).standard_normal((6, 64), np.float32)


class StraightFlow:
    """A transformer that has learnt one picture: every step moves along the line from noise to it."""

    def __init__(self) -> None:
        self.windows: list[list[float]] = []
        self.starts: list[np.ndarray | None] = []

    async def advance(self, latents, sigmas, done):
        self.windows.append(sigmas.tolist())
        self.starts.append(latents)
        await asyncio.sleep(0)
        start = NOISE if latents is None else latents
        return start + (sigmas[-1] - sigmas[0]) * (NOISE - PICTURE)


def schedule(steps: int) -> np.ndarray:
    return np.linspace(1, 0, steps + 1, dtype=np.float32)


def walk(advance, steps: int, per_call: int = 1) -> list[State]:
    async def states():
        return [state async for state in denoise(advance, schedule(steps), lambda _: per_call)]

    return asyncio.run(states())


@pytest.mark.parametrize("steps", [1, 2, 5, 50])
def test_there_is_a_state_after_every_step(steps):
    flow = StraightFlow()
    states = walk(flow.advance, steps)
    assert [state.step for state in states] == list(range(1, steps + 1))
    assert flow.windows == [[*pair] for pair in zip(schedule(steps), schedule(steps)[1:], strict=False)]
    for state, sigma in zip(states, schedule(steps)[1:], strict=True):
        np.testing.assert_allclose(state.latents, sigma * NOISE + (1 - sigma) * PICTURE, atol=1e-5)


def test_the_first_call_has_no_latents_and_every_other_has_the_last_answer():
    flow = StraightFlow()
    states = walk(flow.advance, 4)
    assert flow.starts[0] is None
    for start, state in zip(flow.starts[1:], states, strict=False):
        assert start is state.latents


def test_the_prediction_is_the_picture_that_the_velocity_points_at():
    first, *later = walk(StraightFlow().advance, 5)
    assert first.predicted is first.latents  # no state before it: no velocity is known
    for state in later:
        np.testing.assert_allclose(state.predicted, PICTURE, atol=1e-5)


@pytest.mark.parametrize("per_call", [1, 3, 5])
def test_after_the_last_step_the_prediction_is_the_latents(per_call):
    last = walk(StraightFlow().advance, 5, per_call)[-1]
    assert last.predicted is last.latents


@pytest.mark.parametrize(
    ("steps", "per_call", "seen", "lengths"),
    [
        (7, 3, [3, 6, 7], [4, 4, 2]),
        (6, 3, [3, 6], [4, 4]),
        (8, 5, [5, 8], [6, 4]),
        (3, 10, [3], [4]),
        (1, 4, [1], [2]),
    ],
)
def test_steps_of_one_call_are_windows_of_the_schedule(steps, per_call, seen, lengths):
    flow = StraightFlow()
    states = walk(flow.advance, steps, per_call)
    assert [state.step for state in states] == seen
    assert [len(window) for window in flow.windows] == lengths
    assert [flow.windows[0][0], *(sigma for window in flow.windows for sigma in window[1:])] == schedule(steps).tolist()
    assert all(left[-1] == right[0] for left, right in zip(flow.windows, flow.windows[1:], strict=False))
    np.testing.assert_allclose(states[-1].latents, PICTURE, atol=1e-5)


def test_how_many_steps_a_call_makes_is_asked_before_each():
    flow, wanted = StraightFlow(), iter([1, 4, 2, 8])

    async def run():
        return [state.step async for state in denoise(flow.advance, schedule(10), lambda _: next(wanted))]

    assert asyncio.run(run()) == [1, 5, 7, 10]
    assert [len(window) - 1 for window in flow.windows] == [1, 4, 2, 3]


@pytest.mark.parametrize(
    ("tokens_per_call", "image_tokens", "steps"),
    [
        (0, 16, 1),
        (1, 16, 1),
        (4096, 64 * 64, 1),
        (4096, 64 * 64 - 1, 1),
        (4096, 83 * 83, 1),
        (4096, 32 * 32, 4),
        (4096, 32 * 32 + 64 * 64, 1),  # a small picture that looks at a large one
        (4096, 16 * 16, 16),
        (10**9, 83 * 83, 145158),
    ],
)
def test_small_images_do_several_steps_a_call_and_large_ones_one(tokens_per_call, image_tokens, steps):
    assert steps_per_call(tokens_per_call, image_tokens) == steps


def test_no_call_is_made_before_it_is_asked_for():
    flow = StraightFlow()

    async def two_states():
        states = denoise(flow.advance, schedule(10))
        await anext(states)
        await anext(states)
        await states.aclose()

    asyncio.run(two_states())
    assert len(flow.windows) == 2


def test_images_of_unequal_lengths_go_on_together_and_the_short_ones_keep_their_last_state():
    async def run():
        walks = [denoise(StraightFlow().advance, schedule(steps)) for steps in (2, 4, 1)]
        return [states async for states in together(walks)]

    rows = asyncio.run(run())
    assert [[state.step for state in row] for row in rows] == [[1, 1, 1], [2, 2, 1], [2, 3, 1], [2, 4, 1]]
    assert rows[0][2] is rows[3][2]


def test_images_make_each_step_at_the_same_time():
    out, most_out = 0, 0

    async def advance(latents, sigmas, done):
        nonlocal out, most_out
        out += 1
        most_out = max(most_out, out)
        await asyncio.sleep(0)
        out -= 1
        return NOISE

    async def run():
        return [states async for states in together([denoise(advance, schedule(3)) for _ in range(5)])]

    assert len(asyncio.run(run())) == 3
    assert most_out == 5


def test_no_images_are_no_states():
    async def run():
        return [states async for states in together([])]

    assert asyncio.run(run()) == []


def test_an_error_of_one_image_surfaces_after_the_states_before_it():
    async def failing(latents, sigmas, done):
        if sigmas[-1] < 0.5:
            raise RuntimeError("the transformer is gone")
        return NOISE

    seen = []

    async def run():
        walks = [denoise(StraightFlow().advance, schedule(4)), denoise(failing, schedule(4))]
        async for states in together(walks):
            seen.append([state.step for state in states])

    with pytest.raises(RuntimeError, match="the transformer is gone"):
        asyncio.run(run())
    assert seen == [[1, 1], [2, 2]]
