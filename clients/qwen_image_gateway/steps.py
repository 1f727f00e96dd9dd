"""How many steps an image will make, and after which of them a stream shows it. The defaults are the product's own."""

from __future__ import annotations

import math

from qwen_image.sampling.schedule import steps_skipped
from qwen_image_contract import default_of


def expected_steps(asked: int | None, strength: float | None, *, from_picture: bool) -> int:
    """Steps that a request makes: those asked for or the server's default, less those that a picture saves."""
    steps = int(default_of("num_inference_steps")) if asked is None else asked
    if not from_picture:
        return steps
    return steps - steps_skipped(steps, default_of("strength") if strength is None else strength)


def preview_interval(steps: int, partial_images: int) -> int:
    """Steps from one preview to the next, so that so many come before the last step, and no more if that can be: each
    is decoded, whether it is shown or not."""
    apart = steps / (partial_images + 1)
    wide = math.ceil(apart)
    return wide if wide * partial_images < steps else max(1, math.floor(apart))


def preview_steps(steps: int, every: int, partial_images: int) -> frozenset[int]:
    """After which steps a preview is shown: of those that are decoded, the nearest to an even spread."""
    apart = steps / (partial_images + 1)
    nearest = (every * math.floor(number * apart / every + 0.5) for number in range(1, partial_images + 1))
    return frozenset(step for step in nearest if 0 < step < steps)
