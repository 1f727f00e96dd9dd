"""The sizes on offer: Qwen-Image's own shapes, at the area that the server's checkpoint paints."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qwen_image.families import QWEN_IMAGE
from qwen_image_page.facts import Facts

LIKE_THE_PICTURE = "picture"  # leaves the size to the server, which goes by the picture's shape
_WORDS_FOR_IT = "Like the picture"
SHAPES = {  # of 1328 x 1328 pixels; Qwen-Image was trained on these
    "Square 1:1": (1328, 1328),
    "Landscape 16:9": (1664, 928),
    "Landscape 4:3": (1472, 1104),
    "Landscape 3:2": (1584, 1056),
    "Portrait 9:16": (928, 1664),
    "Portrait 3:4": (1104, 1472),
    "Portrait 2:3": (1056, 1584),
}
TIMES = " × "


@dataclass(frozen=True, slots=True)
class Size:
    """In pixels. Its text, "160x96", is what a form holds."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def in_words(self) -> str:
        return f"{self.width}{TIMES}{self.height}"

    @classmethod
    def read(cls, text: str) -> Size | None:
        """None where the size is left to the server."""
        if text == LIKE_THE_PICTURE:
            return None
        width, height = text.split("x")
        return cls(int(width), int(height))


def sizes_of(facts: Facts) -> dict[str, Size]:
    """A size a shape. At small areas two shapes may come to one size, which then is there once."""
    scale = math.sqrt(facts.width * facts.height / math.prod(QWEN_IMAGE.default_size))
    sizes: dict[str, Size] = {}
    for name, (width, height) in SHAPES.items():
        size = Size(_side(width * scale, facts), _side(height * scale, facts))
        if size not in sizes.values():
            sizes[name] = size
    return sizes


def choices(facts: Facts, *, with_picture: bool, more: Size | None = None) -> list[tuple[str, str]]:
    """What a list of sizes offers, as (words, text); `more` is one that may be of another shape."""
    named = [(f"{name} · {size.in_words}", str(size)) for name, size in sizes_of(facts).items()]
    if more is not None and str(more) not in dict(named).values():
        named.append((more.in_words, str(more)))
    return [(_WORDS_FOR_IT, LIKE_THE_PICTURE), *named] if with_picture else named


def _side(wanted: float, facts: Facts) -> int:
    multiple = QWEN_IMAGE.size_multiple
    lowest = math.ceil(facts.limits.min_side / multiple)
    highest = facts.limits.max_side // multiple
    return min(max(round(wanted / multiple), lowest), highest) * multiple
