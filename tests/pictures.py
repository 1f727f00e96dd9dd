"""Pictures that tests send."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours, another for every seed."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def right_half(width: int, height: int) -> Image.Image:
    """A mask: white, to be painted, on the right."""
    mask = np.zeros((height, width), np.uint8)
    mask[:, width // 2 :] = 255
    return Image.fromarray(mask)


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def levels_apart(one: Image.Image | ArrayLike, two: Image.Image | ArrayLike) -> int:
    """The largest difference of two pictures' bytes.

    1 is as close as two requests are promised to come (docs/contract.md): what a row is batched with may round one
    byte the other way. Which rows meet is a matter of microseconds, also for the rows of one request.
    """
    first, second = np.asarray(one, int), np.asarray(two, int)
    assert first.shape == second.shape
    return int(np.abs(first - second).max())
