"""Which shapes of which colours a picture shows, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demo.colours import nearest_colour
from demo.segment import Mask, Pixels, background_of, bounds, components, eroded, foreground_of
from demo.shapes import SHAPES, shape_mask

_SMALLEST = 0.003  # of the picture
_SIDE = 32
_LIKENESS = 0.65  # the least overlap with a shape's true outline


@dataclass(frozen=True, slots=True)
class Found:
    """A thing in the picture; its centre is in pixels."""

    colour: str
    shape: str  # "unknown" where it looks like none
    centre_x: float
    centre_y: float


def find_shapes(image: Image.Image) -> list[Found]:
    pixels = np.asarray(image.convert("RGB"), np.float64)
    ground = background_of(pixels)
    return [_describe(pixels, ground, part) for part in components(foreground_of(pixels), _SMALLEST)]


def _describe(pixels: Pixels, ground: Pixels, part: Mask) -> Found:
    colour = np.median(pixels[eroded(part, 2)], axis=0)
    part = _trimmed(pixels, ground, part, colour)
    red, green, blue = colour.round().astype(int).tolist()
    top, left, bottom, right = bounds(part)
    shape = _nearest_shape(part[top:bottom, left:right])
    return Found(nearest_colour((red, green, blue)), shape, (left + right) / 2, (top + bottom) / 2)


def _trimmed(pixels: Pixels, ground: Pixels, part: Mask, colour: NDArray[np.float64]) -> Mask:
    """The part up to where its colour is half way to the background's: a soft edge makes it no larger."""
    ink = colour - ground
    reach = ((pixels - ground) * ink).sum(axis=2) > 0.5 * (ink * ink).sum(axis=2)
    kept = components(part & reach, 0)
    return kept[0] if kept else part


def _nearest_shape(part: Mask) -> str:
    seen = _squared(Image.fromarray(part.astype(np.uint8) * 255))
    overlaps = {shape: _overlap(seen, _template(shape)) for shape in SHAPES}
    best = max(overlaps, key=lambda shape: overlaps[shape])
    return best if overlaps[best] >= _LIKENESS else "unknown"


def _overlap(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.minimum(first, second).sum() / np.maximum(first, second).sum())


@lru_cache(maxsize=64)
def _template(shape: str) -> NDArray[np.float64]:
    drawn = shape_mask(shape, 96)
    return _squared(drawn.crop(drawn.getbbox()))


def _squared(mask: Image.Image) -> NDArray[np.float64]:
    """The mask centred in a square as wide as its longer side, at one size for all."""
    side = max(mask.size)
    square = Image.new("L", (side, side))
    square.paste(mask, ((side - mask.width) // 2, (side - mask.height) // 2))
    return np.asarray(square.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), np.float64) / 255
