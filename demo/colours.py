"""The colours that captions name, and the tints used where a caption names none."""

from __future__ import annotations

import random

Rgb = tuple[int, int, int]

PALETTE: dict[str, Rgb] = {
    "red": (220, 40, 40),
    "orange": (250, 140, 20),
    "yellow": (250, 220, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 220),
    "purple": (130, 50, 170),
    "pink": (250, 140, 190),
    "brown": (120, 75, 40),
    "black": (20, 20, 20),
    "white": (250, 250, 250),
    "gray": (140, 140, 140),
    "teal": (30, 180, 180),
}
COLOURS = tuple(PALETTE)
SYNONYMS = {"gray": ("grey",), "purple": ("violet",), "teal": ("turquoise",)}

PALE_TINTS: tuple[Rgb, ...] = ((236, 236, 240), (244, 238, 226), (226, 236, 244), (232, 242, 230))
DARK_TINT: Rgb = (84, 96, 118)

_MIN_CONTRAST = 110.0
_JITTER = 10


def distance(first: Rgb, second: Rgb) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5)


def midpoint(first: Rgb, second: Rgb) -> Rgb:
    red, green, blue = ((a + b) // 2 for a, b in zip(first, second, strict=True))
    return red, green, blue


def stands_out(colour: str, background: tuple[str, ...]) -> bool:
    """Whether a thing of this colour can be told from a background of these one or two colours."""
    shades = [PALETTE[name] for name in background]
    if len(shades) == 2:
        shades.append(midpoint(shades[0], shades[1]))
    return all(distance(PALETTE[colour], shade) >= _MIN_CONTRAST for shade in shades)


def nearest_colour(rgb: Rgb) -> str:
    return min(COLOURS, key=lambda name: distance(PALETTE[name], rgb))


def jittered(rng: random.Random, rgb: Rgb) -> Rgb:
    red, green, blue = (min(255, max(0, value + rng.randint(-_JITTER, _JITTER))) for value in rgb)
    return red, green, blue


def tint_for(rng: random.Random, colours: set[str]) -> Rgb:
    """A quiet background for things of these colours: pale, or dark where something is white."""
    return DARK_TINT if "white" in colours else rng.choice(PALE_TINTS)
