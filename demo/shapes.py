"""The shapes: outlines in a unit square, and their antialiased masks at a size in pixels."""

from __future__ import annotations

import math
from functools import lru_cache

from PIL import Image, ImageDraw

Outline = tuple[tuple[float, float], ...]

_SUPERSAMPLING = 4


def _round(radius: float, centre_x: float = 0.5, corners: int = 72) -> Outline:
    angles = (2 * math.pi * i / corners for i in range(corners))
    return tuple((centre_x + radius * math.cos(a), 0.5 + radius * math.sin(a)) for a in angles)


def _star() -> Outline:
    points = []
    for i in range(10):
        radius, angle = (0.55, 0.22)[i % 2], math.pi * i / 5 - math.pi / 2
        points.append((0.5 + radius * math.cos(angle), 0.55 + radius * math.sin(angle)))
    return tuple(points)


def _heart() -> Outline:
    points = []
    for i in range(72):
        t = 2 * math.pi * i / 72
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((0.5 + 16 * math.sin(t) ** 3 / 34, 0.44 - y / 34))
    return tuple(points)


def _cross() -> Outline:
    a, b = 0.34, 0.66
    return ((a, 0), (b, 0), (b, a), (1, a), (1, b), (b, b), (b, 1), (a, 1), (a, b), (0, b), (0, a), (a, a))


# A shape is an outline and, for two of them, an outline cut out of it.
OUTLINES: dict[str, tuple[Outline, Outline]] = {
    "circle": (_round(0.5), ()),
    "square": (((0.04, 0.04), (0.96, 0.04), (0.96, 0.96), (0.04, 0.96)), ()),
    "triangle": (((0.5, 0.03), (1.0, 0.95), (0.0, 0.95)), ()),
    "star": (_star(), ()),
    "ring": (_round(0.5), _round(0.27)),
    "diamond": (((0.5, 0), (0.9, 0.5), (0.5, 1), (0.1, 0.5)), ()),
    "heart": (_heart(), ()),
    "cross": (_cross(), ()),
    "moon": (_round(0.5), _round(0.46, centre_x=0.76)),
}
SHAPES = tuple(OUTLINES)


@lru_cache(maxsize=4096)
def shape_mask(shape: str, diameter: int) -> Image.Image:
    """The shape's coverage, 0 to 255, in a square of this many pixels."""
    outline, hole = OUTLINES[shape]
    side = diameter * _SUPERSAMPLING
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    draw.polygon([(x * side, y * side) for x, y in outline], fill=255)
    if hole:
        draw.polygon([(x * side, y * side) for x, y in hole], fill=0)
    return mask.resize((diameter, diameter), Image.Resampling.BOX)
