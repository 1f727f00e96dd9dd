"""The sizes to choose from: Qwen-Image's own shapes, at the area of the checkpoint's default size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qwen_image_page.server_info import ServerInfo

LIKE_INPUT_IMAGE = "picture"  # no size in the request: the server keeps the input image's shape
_LIKE_INPUT_IMAGE_LABEL = "Like the picture"
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
    def label(self) -> str:
        return f"{self.width}{TIMES}{self.height}"

    @classmethod
    def parse(cls, text: str) -> Size | None:
        """None where the server chooses the size."""
        if text == LIKE_INPUT_IMAGE:
            return None
        width, height = text.split("x")
        return cls(int(width), int(height))


def sizes_by_shape(info: ServerInfo) -> dict[str, Size]:
    """One size per shape. At small areas two shapes may have one size; it is there once."""
    scale = math.sqrt(info.width * info.height / math.prod(SHAPES["Square 1:1"]))
    sizes: dict[str, Size] = {}
    for name, (width, height) in SHAPES.items():
        size = Size(_round_side(width * scale, info), _round_side(height * scale, info))
        if size not in sizes.values():
            sizes[name] = size
    return sizes


def size_choices(info: ServerInfo, *, has_input_image: bool, extra: Size | None = None) -> list[tuple[str, str]]:
    """The choices of a list of sizes, as (label, value); `extra` may have another shape."""
    named = [(f"{name} · {size.label}", str(size)) for name, size in sizes_by_shape(info).items()]
    if extra is not None and str(extra) not in dict(named).values():
        named.append((extra.label, str(extra)))
    return [(_LIKE_INPUT_IMAGE_LABEL, LIKE_INPUT_IMAGE), *named] if has_input_image else named


def _round_side(wanted: float, info: ServerInfo) -> int:
    multiple = info.size_multiple
    lowest = math.ceil(info.limits.min_side / multiple)
    highest = info.limits.max_side // multiple
    return min(max(round(wanted / multiple), lowest), highest) * multiple
