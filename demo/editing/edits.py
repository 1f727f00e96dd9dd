"""What is asked of pictures: source arrangements, the one that is right, and what the words name. No wordings here."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from demo.colours import COLOURS, PALETTE, distance
from demo.editing.arrangement import SIDE, Arrangement, Piece, arrange
from demo.layout import Box
from demo.scenes import Scene, Thing, draw_scene
from demo.shapes import SHAPES
from demo.split import is_held_out

# How often each kind is drawn, by the number of pictures it brings.
KINDS: dict[int, dict[str, int]] = {
    1: {"recolour": 16, "remove": 14, "move": 20, "background": 10, "add": 20, "replace": 18},
    2: {"compose": 12, "borrow": 12},
}
_SCENES = {"single": 25, "pair": 45, "trio": 30}

# Where a place is, across and down: 0 at the left or top edge, 1 in the middle, 2 at the other edge; None as it was.
PLACES: dict[str, tuple[int, int]] = {
    "left": (0, 1),
    "right": (2, 1),
    "top": (1, 0),
    "bottom": (1, 2),
    "top left corner": (0, 0),
    "top right corner": (2, 0),
    "bottom left corner": (0, 2),
    "bottom right corner": (2, 2),
    "centre": (1, 1),
}
_MARGIN = 6  # pixels
_ADDED = 30  # pixels a side of what an edit adds
_FAR = 24.0  # pixels that a move goes at least
_OTHER_SHADE = 60.0


@dataclass(frozen=True, slots=True)
class Edit:
    """One request: pictures, what is asked, and the only right answer."""

    kind: str
    sources: tuple[Arrangement, ...]
    target: Arrangement
    combination: tuple[Hashable, ...]  # what the held-out split is made by
    subject: str = ""  # the thing that the words name: "circle", or "red circle" where there are two circles
    new: Thing | None = None  # of add and replace
    colour: str = ""  # of recolour and background
    place: str = ""  # of move and add
    shapes_from: int = 0  # of two pictures: the number, from 1, of the one whose shapes are taken

    @property
    def is_held_out(self) -> bool:
        return is_held_out(self.combination)

    @property
    def touched(self) -> tuple[Piece, ...]:
        """Things of the target that no source has."""
        known = {piece for source in self.sources for piece in source.pieces}
        return tuple(piece for piece in self.target.pieces if piece not in known)


def draw_edit(rng: random.Random, references: int = 1, held_out: bool = False, kind: str | None = None) -> Edit:
    """A random edit of so many pictures, of the training split or of the held-out one."""
    kinds = KINDS[references]
    kind = kind or rng.choices(tuple(kinds), weights=tuple(kinds.values()))[0]
    while True:
        edit = _DRAWERS[kind](rng)
        if edit and edit.target.is_clear and edit.is_held_out == held_out:
            return edit


def _draw_source(rng: random.Random, *kinds: str) -> tuple[Scene, Arrangement]:
    allowed = kinds or tuple(_SCENES)
    scene = draw_scene(rng, kind=rng.choices(allowed, weights=[_SCENES[kind] for kind in allowed])[0])
    return scene, arrange(scene, rng.getrandbits(60))


def _named(rng: random.Random, source: Arrangement) -> tuple[Piece, str] | None:
    """A thing that words can tell from the others, and the words."""
    piece = rng.choice(source.pieces)
    colour, shape = piece.name
    others = [other.name for other in source.pieces if other is not piece]
    names = [f"{colour} {shape}"] if piece.name not in others else []
    if all(shape != other_shape for _, other_shape in others):
        names += [shape, shape]
    elif all(colour != other_colour for other_colour, _ in others):
        names += [f"{colour} shape"]
    return (piece, rng.choice(names)) if names else None


def _others(source: Arrangement, piece: Piece) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(other.name for other in source.pieces if other is not piece))


def _at(place: str, side: int) -> Box:
    left, top = ((_MARGIN, (SIDE - side) // 2, SIDE - _MARGIN - side)[step] for step in PLACES[place])
    return Box(left, top, side)


def _recolour(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng)
    if not (named := _named(rng, source)):
        return None
    (piece, words), colour = named, rng.choice(COLOURS)
    if colour == piece.thing.colour:
        return None
    painted = replace(piece, thing=replace(piece.thing, colour=colour), ink=PALETTE[colour])
    combination = ("recolour", *piece.name, colour)
    return Edit("recolour", (source,), source.with_piece(piece, painted), combination, words, colour=colour)


def _remove(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng)
    if not (named := _named(rng, source)):
        return None
    piece, words = named
    combination = ("remove", piece.name, _others(source, piece))
    return Edit("remove", (source,), source.with_piece(piece, None), combination, words)


def _move(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng)
    if not (named := _named(rng, source)):
        return None
    (piece, words), place = named, rng.choice(tuple(PLACES))
    box = _at(place, piece.box.side)
    if place in ("left", "right"):
        box = replace(box, top=piece.box.top)
    elif place in ("top", "bottom"):
        box = replace(box, left=piece.box.left)
    if max(abs(box.left - piece.box.left), abs(box.top - piece.box.top)) < _FAR:
        return None
    moved = replace(piece, box=box)
    return Edit("move", (source,), source.with_piece(piece, moved), ("move", *piece.name, place), words, place=place)


def _background(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng)
    colour = rng.choice(COLOURS)
    if any(distance(PALETTE[colour], shade) < _OTHER_SHADE for shade in source.background):
        return None
    things = tuple(sorted(piece.name for piece in source.pieces))
    target = replace(source, background=(PALETTE[colour],))
    return Edit("background", (source,), target, ("background", colour, things), colour=colour)


def _add(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng, "single", "pair")
    new = Thing(rng.choice(COLOURS), rng.choice(SHAPES))
    place = rng.choice(tuple(PLACES))
    piece = Piece(new, _at(place, _ADDED), PALETTE[new.colour])
    combination = ("add", new.colour, new.shape, place)
    return Edit("add", (source,), source.with_piece(None, piece), combination, new=new, place=place)


def _replace(rng: random.Random) -> Edit | None:
    _, source = _draw_source(rng)
    if not (named := _named(rng, source)):
        return None
    (piece, words), shape = named, rng.choice(SHAPES)
    if shape == piece.thing.shape:
        return None
    if keeps_colour := rng.random() < 0.35:
        painted = replace(piece, thing=replace(piece.thing, shape=shape))
    else:
        colour = rng.choice(COLOURS)
        painted = replace(piece, thing=replace(piece.thing, colour=colour, shape=shape), ink=PALETTE[colour])
    new = Thing("" if keeps_colour else painted.thing.colour, shape)
    combination = ("replace", piece.thing.shape, painted.thing.colour, shape)
    return Edit("replace", (source,), source.with_piece(piece, painted), combination, words, new=new)


def _two(first: Arrangement, second: Arrangement, shapes_from: int) -> tuple[Arrangement, Arrangement]:
    """`first`, whose shapes are taken, and `second` in the order in which they are brought."""
    return (first, second) if shapes_from == 1 else (second, first)


def _compose(rng: random.Random) -> Edit | None:
    """The shapes of one picture on the background of another."""
    _, shapes = _draw_source(rng)
    other_scene, other = _draw_source(rng)
    if min(distance(a, b) for a in shapes.background for b in other.background) < _OTHER_SHADE:
        return None
    shapes_from = rng.choice((1, 2))
    combination = ("compose", tuple(sorted(piece.name for piece in shapes.pieces)), other_scene.background)
    target = replace(shapes, background=other.background)
    return Edit("compose", _two(shapes, other, shapes_from), target, combination, shapes_from=shapes_from)


def _borrow(rng: random.Random) -> Edit | None:
    """One thing of one picture, at its place, added to another picture."""
    _, shapes = _draw_source(rng)
    _, other = _draw_source(rng, "single", "pair")
    if not (named := _named(rng, shapes)):
        return None
    (piece, words), shapes_from = named, rng.choice((1, 2))
    combination = ("borrow", piece.name, tuple(sorted(each.name for each in other.pieces)))
    target = other.with_piece(None, piece)
    return Edit("borrow", _two(shapes, other, shapes_from), target, combination, words, shapes_from=shapes_from)


_DRAWERS: dict[str, Callable[[random.Random], Edit | None]] = {
    "recolour": _recolour,
    "remove": _remove,
    "move": _move,
    "background": _background,
    "add": _add,
    "replace": _replace,
    "compose": _compose,
    "borrow": _borrow,
}
