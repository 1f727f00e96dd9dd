"""The denoising loop of one image: a call of the transformer after another, a state after each.

It knows neither Triton nor torch: `advance` carries the latents through the transformer, wherever that runs.
Progress, previews, cancellation and metrics belong to whoever consumes the states.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Latents = NDArray[np.float32]  # (L, channels) tokens
Advance = Callable[[Latents | None, NDArray[np.float32]], Awaitable[Latents]]


@dataclass(frozen=True, slots=True)
class State:
    """After `step` steps: the latents, and the picture that the last prediction points at."""

    step: int  # 1 .. num_inference_steps
    latents: Latents
    predicted: Latents  # x0 = x − σ·v; after the last step it is `latents`


def steps_per_call(tokens_per_call: int, image_tokens: int) -> int:
    """How many steps of an image fit one call; one at least. `image_tokens` counts its references."""
    return max(1, tokens_per_call // image_tokens)


async def denoise(advance: Advance, sigmas: NDArray[np.float32], steps: int = 1) -> AsyncIterator[State]:
    """Advance noise down `sigmas`, (num_inference_steps + 1,), `steps` at a time; yield the state after each call.

    The first call has no latents: the transformer's side draws the noise from the image's seed.
    """
    latents: Latents | None = None
    for start in range(0, len(sigmas) - 1, steps):
        window = sigmas[start : start + steps + 1]
        before, latents = latents, await advance(latents, window)
        yield State(start + len(window) - 1, latents, _predicted(before, latents, window))


def _predicted(before: Latents | None, after: Latents, window: NDArray[np.float32]) -> Latents:
    """x0 = x − σ·v with v from the two states; `after` itself where there is no state a step before."""
    if before is None or len(window) != 2 or window[1] == 0:
        return after
    velocity = (after - before) / (window[1] - window[0])
    return np.asarray(after - window[1] * velocity)


async def together(walks: Sequence[AsyncIterator[State]]) -> AsyncIterator[list[State]]:
    """The states of several images, a step of each at a time; one that is done keeps its last state."""
    states: list[State | None] = [None] * len(walks)
    while True:
        news = await asyncio.gather(*(anext(walk, None) for walk in walks))
        if all(new is None for new in news):
            return
        states = [new or old for new, old in zip(news, states, strict=True)]
        yield [state for state in states if state is not None]
