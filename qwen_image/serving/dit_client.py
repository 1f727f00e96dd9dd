"""Calls of the `dit` model from the sampler, through Triton's business logic scripting."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest, NotHeld, QwenImageError
from qwen_image.sampling.denoise import Advance, Latents
from qwen_image.sampling.retry import retry
from qwen_image.sampling.step_batcher import Rounds
from qwen_image.serving.backend import log_request
from qwen_image.serving.bls import call
from qwen_image.serving.image_tokens import PictureTokens
from qwen_image.serving.job import Image
from qwen_image.serving.log_text import short_id
from qwen_image.serving.metrics import Metrics


@dataclass(slots=True, eq=False)
class Held:
    """An image on its way: whether the transformer's side has been sent its text states."""

    image: Image
    pictures: PictureTokens
    request_id: str
    image_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_sent_states: bool = False


@dataclass(slots=True, eq=False)
class Step:
    """One image's part of a call."""

    held: Held
    latents: Latents | None
    sigmas: NDArray[np.float32]
    true_cfg_scale: float

    @property
    def pack_key(self) -> Hashable:
        """Steps travel together if their tensors stack; text states, of any length, travel alone."""
        if not self.held.has_sent_states or self.latents is None:
            return self.held.image_id
        return self.held.image.grid, len(self.sigmas)


class DitClient:
    """Advances images by calls of `dit`."""

    def __init__(self, metrics: Metrics, *, max_pack: int, dit_instances: int) -> None:
        self._metrics = metrics
        self._rounds: Rounds[Step, Latents] = Rounds(self._send, max_pack, dit_instances)

    def advance_for(
        self, image: Image, pictures: PictureTokens, request_id: str, check_wanted: Callable[[], None]
    ) -> Advance:
        """The function that carries this image's latents through the transformer.

        `check_wanted` raises once nobody waits for the image: then a step that failed is not tried again.
        """
        held = Held(image, pictures, request_id)

        async def advance(latents: Latents | None, sigmas: NDArray[np.float32], done: int) -> Latents:
            start = time.perf_counter()
            step = Step(held, latents, sigmas, image.scale_of_step(done))
            advanced = await retry(lambda: self._rounds.run(step), check_wanted)  # in a round of its own each time
            self._metrics.add("qwen_image_step_seconds_total", time.perf_counter() - start)
            self._metrics.add("qwen_image_step_calls_total")
            return advanced

        return advance

    async def _send(self, steps: Sequence[Step]) -> Sequence[Latents | Exception]:
        """One call for all; if it fails, one for each, so that a step that can't be computed harms no other."""
        if len(steps) == 1:
            return [await self._send_alone(steps[0])]
        try:
            return await self._call(steps)
        except QwenImageError:
            return await asyncio.gather(*map(self._send_alone, steps))

    async def _send_alone(self, step: Step) -> Latents | Exception:
        try:
            return (await self._call([step]))[0]
        except QwenImageError as error:
            step.held.has_sent_states = False
            if not isinstance(error, InvalidRequest | NotHeld):
                self._metrics.add("qwen_image_failed_steps_total")
                log_request(step.held.request_id, f"a step failed: {error}", level=logging.WARNING)
            return error

    async def _call(self, steps: Sequence[Step]) -> Sequence[Latents]:
        request_ids = dict.fromkeys(step.held.request_id for step in steps)
        (latents,) = await call("dit", _inputs(steps), ["latents"], ",".join(map(short_id, request_ids)))
        for step in steps:
            step.held.has_sent_states = True
        return list(latents)


def _inputs(steps: Sequence[Step]) -> dict[str, NDArray[Any]]:
    images = [step.held.image for step in steps]
    inputs: dict[str, NDArray[Any]] = {
        "image_id": np.array([[step.held.image_id.encode()] for step in steps], np.object_),
        "seed": np.array([[image.seed] for image in images], np.int64),
        "grid": np.array([image.grid for image in images], np.int32),
        "true_cfg_scale": np.array([[step.true_cfg_scale] for step in steps], np.float32),
        "sigmas": np.stack([step.sigmas for step in steps]),
    }
    latents = [step.latents for step in steps if step.latents is not None]
    if latents:
        inputs["latents"] = latents[0][None] if len(latents) == 1 else np.stack(latents)
    if not all(step.held.has_sent_states for step in steps):
        (alone,) = steps  # what an image is conditioned on has a size of its own
        inputs["prompt_embeds"] = alone.held.image.prompt_embeds[None]
        inputs["negative_prompt_embeds"] = alone.held.image.negative_prompt_embeds[None]
        inputs |= alone.held.pictures.inputs()
    return inputs
