"""Calls of the `dit` model from the sampler, through Triton's business logic scripting."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from qwen_image.denoise import Advance, Latents
from qwen_image.errors import InvalidRequest, QwenImageError, Unavailable
from qwen_image.serving.job import Image
from qwen_image.serving.metrics import Metrics

TRIES = 3  # a call is made again when a dit instance died: the state is here, not there
PAUSE_S = 0.5
NOT_TRIED_AGAIN = {"INVALID_ARG": InvalidRequest, "UNAVAILABLE": Unavailable}


class DitClient:
    """Advances images by calls of `dit`; the tensors that stay the same are laid in shared memory once an image."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def advance_for(self, image: Image, request_id: str) -> Advance:
        """The function that carries this image's latents through the transformer."""
        constant = [
            pb_utils.Tensor("prompt_embeds", image.prompt_embeds[None]),
            pb_utils.Tensor("negative_prompt_embeds", image.negative_prompt_embeds[None]),
            pb_utils.Tensor("true_cfg_scale", np.array([[image.true_cfg_scale]], np.float32)),
            pb_utils.Tensor("grid", np.array([image.grid], np.int32)),
            pb_utils.Tensor("seed", np.array([[image.seed]], np.int64)),
        ]

        async def advance(latents: Latents | None, sigmas: NDArray[np.float32]) -> Latents:
            inputs = [*constant, pb_utils.Tensor("sigmas", sigmas[None])]
            if latents is not None:
                inputs.append(pb_utils.Tensor("latents", latents[None]))
            return await self._call(inputs, request_id)

        return advance

    async def _call(self, inputs: list[Any], request_id: str) -> Latents:
        for attempt in range(1, TRIES + 1):
            start = time.perf_counter()
            request = pb_utils.InferenceRequest(
                model_name="dit", request_id=request_id, inputs=inputs, requested_output_names=["latents"]
            )
            response = await request.async_exec()
            self._metrics.add("qwen_image_step_seconds_total", time.perf_counter() - start)
            self._metrics.add("qwen_image_step_calls_total")
            if not response.has_error():
                latents: Latents = pb_utils.get_output_tensor_by_name(response, "latents").as_numpy()[0]
                return latents
            error = response.error()
            kinds = {getattr(pb_utils.TritonError, status): kind for status, kind in NOT_TRIED_AGAIN.items()}
            if error.code() in kinds or attempt == TRIES:
                raise kinds.get(error.code(), QwenImageError)(error.message())
            self._metrics.add("qwen_image_retried_steps_total")
            pb_utils.Logger.log_warn(f"[request {request_id or '-'}] step tried again: {error.message()}")
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("unreachable")
