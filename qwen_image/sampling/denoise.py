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
Advance = Callable[[Latents | None, NDArray[np.float32], int], Awaitable[Latents]]


@dataclass(frozen=True, slots=True)
class State:
    """After `step` steps: the latents, and what they were made of."""

    step: int  # 1 .. num_inference_steps
    latents: Latents
    before: Latents | None  # None: noise that only the transformer's side has seen
    window: NDArray[np.float32]  # the noise levels that the call went through

    @property
    def predicted(self) -> Latents:
        """The picture that the last velocity points at, x0 = x − σ·v with v from the two states.

        `latents` themselves where there is no state a step before, and after the last step.
        """
        if self.before is None or len(self.window) != 2 or self.window[1] == 0:
            return self.latents
        velocity = (self.latents - self.before) / (self.window[1] - self.window[0])
        return np.asarray(self.latents - self.window[1] * velocity)


def steps_per_call(tokens_per_call: int, image_tokens: int) -> int:
    """How many steps of an image fit one call; one at least. `image_tokens` counts its references."""
    return max(1, tokens_per_call // image_tokens)


def one_step(_: int) -> int:
    return 1


async def denoise(
    advance: Advance, sigmas: NDArray[np.float32], steps: Callable[[int], int] = one_step
) -> AsyncIterator[State]:
    """Advance noise down `sigmas`, (num_inference_steps + 1,); yield the state after each call.

    `steps` is asked before every call how many it may make; it and `advance` are told how many are done. The first
    call has no latents: the transformer's side draws the noise from the image's seed.
    """
    latents: Latents | None = None
    done = 0
    while done < len(sigmas) - 1:
        window = sigmas[done : done + steps(done) + 1]
        before, latents = latents, await advance(latents, window, done)
        done += len(window) - 1
        yield State(done, latents, before, window)


async def together(walks: Sequence[AsyncIterator[State]]) -> AsyncIterator[list[State]]:
    """The states of several images, a step of each at a time; one that is done keeps its last state."""
    states: list[State | None] = [None] * len(walks)
    while True:
        news = await asyncio.gather(*(anext(walk, None) for walk in walks))
        if all(new is None for new in news):
            return
        states = [new or old for new, old in zip(news, states, strict=True)]
        yield [state for state in states if state is not None]
