"""A scene with every choice made: which pixel each thing stands on, and in which shade."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from demo.colours import PALETTE, Rgb, distance, jittered, midpoint, tint_for
from demo.layout import Box, place_things
from demo.scenes import Scene, Thing
from demo.shapes import shape_mask

SIDE = 128  # pixels of every picture here
_VISIBLE = 90.0  # between a thing's shade and every shade behind it
_GAP = 5  # pixels between things, at least


def _half(coverage: int) -> int:
    return 255 if coverage > 127 else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A thing at its place."""

    thing: Thing
    box: Box
    ink: Rgb

    @property
    def name(self) -> tuple[str, str]:
        return self.thing.colour, self.thing.shape

    @property
    def centre(self) -> tuple[float, float]:
        """Of what is drawn, in pixels; a moon fills the left of its box alone."""
        left, top, right, bottom = shape_mask(self.thing.shape, self.box.side).point(_half).getbbox() or (0, 0, 0, 0)
        return self.box.left + (left + right) / 2, self.box.top + (top + bottom) / 2

    def keeps_clear_of(self, other: Piece) -> bool:
        mine, theirs = self.box, other.box
        beside = mine.left + mine.side + _GAP <= theirs.left or theirs.left + theirs.side + _GAP <= mine.left
        return beside or mine.top + mine.side + _GAP <= theirs.top or theirs.top + theirs.side + _GAP <= mine.top


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All that a picture consists of: one shade, or two that blend from top to bottom, and the things before them."""

    background: tuple[Rgb, ...]
    pieces: tuple[Piece, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether every thing can be told from the background and from the others."""
        apart = all(a.keeps_clear_of(b) for i, a in enumerate(self.pieces) for b in self.pieces[:i])
        return apart and all(is_visible(piece.ink, self.background) for piece in self.pieces)

    def with_piece(self, old: Piece | None, new: Piece | None) -> Arrangement:
        """`old` replaced by `new`; None stands for nothing."""
        if old is None:
            return replace(self, pieces=(*self.pieces, *((new,) if new else ())))
        swapped = (new if piece is old else piece for piece in self.pieces)
        return replace(self, pieces=tuple(piece for piece in swapped if piece is not None))


def is_visible(ink: Rgb, background: tuple[Rgb, ...]) -> bool:
    shades = [*background, midpoint(background[0], background[-1])]
    return all(distance(ink, shade) >= _VISIBLE for shade in shades)


def arrange(scene: Scene, seed: int) -> Arrangement:
    """The choices that `demo.painter.paint` makes for this scene of things and this seed."""
    rng = random.Random(seed)
    if scene.background:
        background = tuple(jittered(rng, PALETTE[name]) for name in scene.background)
    else:
        background = (tint_for(rng, {thing.colour for thing in scene.things} | {"black"}),)
    boxes = place_things(rng, scene, SIDE, SIDE) if scene.things else []
    pieces = (
        Piece(thing, box, jittered(rng, PALETTE[thing.colour])) for thing, box in zip(scene.things, boxes, strict=True)
    )
    return Arrangement(background, tuple(pieces))


def paint_arrangement(arrangement: Arrangement) -> Image.Image:
    top, bottom = arrangement.background[0], arrangement.background[-1]
    if top == bottom:
        canvas = Image.new("RGB", (SIDE, SIDE), top)
    else:
        rows = np.linspace(np.array(top), np.array(bottom), SIDE).round().astype(np.uint8)
        canvas = Image.fromarray(np.ascontiguousarray(np.broadcast_to(rows[:, None, :], (SIDE, SIDE, 3))))
    for piece in arrangement.pieces:
        canvas.paste(piece.ink, (piece.box.left, piece.box.top), shape_mask(piece.thing.shape, piece.box.side))
    return canvas
