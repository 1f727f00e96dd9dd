"""The noise schedule: sigmas of a flow-matching Euler sampler, from the checkpoint's scheduler configuration.

The formulas are those of diffusers' FlowMatchEulerDiscreteScheduler and QwenImagePipeline, which parity tests run
beside this. Written on numpy, because the sampler holds no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import CheckpointError

UNSUPPORTED_OPTIONS = (
    "use_karras_sigmas",
    "use_exponential_sigmas",
    "use_beta_sigmas",
    "invert_sigmas",
    "stochastic_sampling",
)


def steps_skipped(num_inference_steps: int, strength: float) -> int:
    """How many of the first steps an image that starts from a picture leaves out: QwenImageImg2ImgPipeline's.

    `strength` is above 0 and at most 1. One step is always left, however weak.
    """
    return min(int(num_inference_steps - num_inference_steps * strength), num_inference_steps - 1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One checkpoint's scheduler. The fallbacks are the scheduler and pipeline classes' own, as in diffusers."""

    use_dynamic_shifting: bool = False
    shift: float = 1.0
    base_shift: float = 0.5
    max_shift: float = 1.15
    base_image_seq_len: int = 256
    max_image_seq_len: int = 4096
    shift_terminal: float | None = None
    time_shift_type: str = "exponential"

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Schedule:
        """From scheduler_config.json. CheckpointError for an option this sampler does not implement."""
        wanted = [name for name in UNSUPPORTED_OPTIONS if config.get(name)]
        if wanted:
            raise CheckpointError(
                f"scheduler_config.json sets {', '.join(wanted)}; only the plain flow-matching Euler schedule is served"
            )
        schedule = cls(**{name: config[name] for name in cls.__dataclass_fields__ if name in config})
        if schedule.time_shift_type not in ("exponential", "linear"):
            raise CheckpointError(
                f"scheduler_config.json: time_shift_type={schedule.time_shift_type!r} must be 'exponential' or 'linear'"
            )
        return schedule

    def mu(self, image_tokens: int) -> float:
        """The shift for an image of so many transformer tokens, affine between the two configured lengths."""
        slope = (self.max_shift - self.base_shift) / (self.max_image_seq_len - self.base_image_seq_len)
        return self.base_shift + slope * (image_tokens - self.base_image_seq_len)

    def sigmas(
        self, *, num_inference_steps: int, image_tokens: int, sigmas: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """The sigmas to step through, float32, shape (num_inference_steps + 1,): falling, the last one 0.

        Given `sigmas` take the place of linspace(1, 1/N, N) and are shifted all the same, as diffusers does.
        """
        unshifted = np.linspace(1.0, 1 / num_inference_steps, num_inference_steps) if sigmas is None else sigmas
        shifted = self._stretched(self._shifted(np.asarray(unshifted, np.float32), image_tokens))
        return np.append(shifted, np.float32(0)).astype(np.float32)

    def _shifted(self, sigmas: NDArray[np.float32], image_tokens: int) -> NDArray[np.float32]:
        if not self.use_dynamic_shifting:
            return np.asarray(self.shift * sigmas / (1 + (self.shift - 1) * sigmas), np.float32)
        mu = self.mu(image_tokens)
        factor = math.exp(mu) if self.time_shift_type == "exponential" else mu
        return np.asarray(factor / (factor + (1 / sigmas - 1)), np.float32)

    def _stretched(self, sigmas: NDArray[np.float32]) -> NDArray[np.float32]:
        """So that the last sigma is `shift_terminal`. A lone 1 has nothing to stretch and stays (diffusers: NaN)."""
        if not self.shift_terminal or sigmas[-1] == 1:
            return sigmas
        scale = (1 - sigmas[-1]) / (1 - self.shift_terminal)
        return np.asarray(1 - (1 - sigmas) / scale, np.float32)
