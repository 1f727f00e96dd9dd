"""Pictures that tests send."""

from __future__ import annotations

import io

import numpy as np
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
