"""Whether a picture shows the edit that was asked for, and nothing else. numpy alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demo.colours import nearest_colour
from demo.editing.arrangement import Piece, paint_arrangement
from demo.editing.edits import Edit
from demo.find_shapes import Found, find_shapes
from demo.segment import Mask, background_of, eroded

CHANGED_REACH = 12.0  # pixels that a changed thing's centre may be off
KEPT_REACH = 6.0  # that of one which should not have moved
KEPT_DISTANCE = 12.0  # of 0 to 441: mean distance of colours over all that should have stayed as it was
_RIM = 5  # pixels around every change that are not compared


@dataclass(frozen=True, slots=True)
class EditVerdict:
    """What became of the request, and of the rest of the picture."""

    change: bool
    rest: bool
    seen: str
    rest_distance: float  # 0 to 441

    @property
    def is_right(self) -> bool:
        return self.change and self.rest


def check_edit(edit: Edit, image: Image.Image) -> EditVerdict:
    found, off = find_shapes(image), rest_distance(edit, image)
    matched = _match(edit.target.pieces, found)
    strangers = [thing for thing in found if thing not in matched.values()]
    leftovers = [thing for thing in strangers if any(_stands_on(piece, thing) for piece in _disputed(edit))]
    wrong = {piece for piece in edit.target.pieces if piece not in matched or not _is_in_place(edit, piece, matched)}
    asked = set(edit.touched if len(edit.sources) == 1 else edit.target.pieces)
    change = not leftovers and not wrong & asked
    if edit.kind == "background":
        change = change and _background_names(image) == {edit.colour}
    elif edit.kind == "compose":
        change = change and off <= KEPT_DISTANCE
    rest = len(strangers) == len(leftovers) and not wrong - set(edit.touched) and off <= KEPT_DISTANCE
    return EditVerdict(change, rest, ", ".join(f"{thing.colour} {thing.shape}" for thing in found), off)


def _disputed(edit: Edit) -> list[Piece]:
    """Where a thing that does not belong to the target is what the request was about."""
    if len(edit.sources) == 2:
        return list(edit.touched)
    return [*edit.touched, *(piece for piece in edit.sources[0].pieces if piece not in edit.target.pieces)]


def _is_in_place(edit: Edit, piece: Piece, matched: dict[Piece, Found]) -> bool:
    return _apart(piece, matched[piece]) <= (CHANGED_REACH if piece in edit.touched else KEPT_REACH)


def rest_distance(edit: Edit, image: Image.Image) -> float:
    """Mean distance of colours between the picture and what it should be, where that is as in a source."""
    target = _pixels(paint_arrangement(edit.target))
    kept = kept_region(edit)
    if not kept.any():
        return 0.0
    off: float = np.linalg.norm(_pixels(image) - target, axis=2)[kept].mean()
    return float(off)


def kept_region(edit: Edit) -> Mask:
    """Pixels of the target that are as in a source, some way from any that are not."""
    target = np.asarray(paint_arrangement(edit.target))
    same = np.zeros(target.shape[:2], bool)
    for source in edit.sources:
        same |= (np.asarray(paint_arrangement(source)) == target).all(axis=2)
    framed = np.pad(same, _RIM, constant_values=True)  # a picture's own edge is no change
    return eroded(framed, _RIM)[_RIM:-_RIM, _RIM:-_RIM]


def _pixels(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image.convert("RGB"), np.float64)


def _background_names(image: Image.Image) -> set[str]:
    """Of the background at the top, in the middle and at the bottom."""
    rows = background_of(_pixels(image))[[0, image.height // 2, -1], 0].round().astype(int).tolist()
    return {nearest_colour((red, green, blue)) for red, green, blue in rows}


def _match(pieces: tuple[Piece, ...], found: list[Found]) -> dict[Piece, Found]:
    """Each thing with the nearest one seen that has its colour and shape; none is taken twice."""
    pairs = [
        (_apart(piece, thing), i, j)
        for i, piece in enumerate(pieces)
        for j, thing in enumerate(found)
        if piece.name == (thing.colour, thing.shape)
    ]
    taken: dict[int, int] = {}
    for _, i, j in sorted(pairs):
        if i not in taken and j not in taken.values():
            taken[i] = j
    return {pieces[i]: found[j] for i, j in taken.items()}


def _apart(piece: Piece, thing: Found) -> float:
    x, y = piece.centre
    return math.hypot(thing.centre_x - x, thing.centre_y - y)


def _stands_on(piece: Piece, thing: Found) -> bool:
    reach = piece.box.side / 2
    x, y = piece.centre
    return abs(thing.centre_x - x) <= reach and abs(thing.centre_y - y) <= reach
