"""Where things go: a scene and a seed become boxes in pixels, for a picture of any aspect."""

from __future__ import annotations

import random
from dataclasses import dataclass

from demo.scenes import PLACES, Scene, Thing

# Diameters as shares of the picture's shorter side, by kind of scene and by size word.
_DIAMETERS = {
    "single": {"small": (0.2, 0.27), "": (0.36, 0.5), "large": (0.6, 0.72)},
    "pair": {"small": (0.16, 0.2), "": (0.27, 0.34), "large": (0.4, 0.44)},
    "trio": {"": (0.21, 0.26)},
    "count": {"": (0.18, 0.235)},
}
# How a number of equal things is set out: things in each row, from the top.
_ROWS = {2: ((2,),), 3: ((3,), (1, 2), (2, 1)), 4: ((2, 2),), 5: ((2, 1, 2), (3, 2), (2, 3)), 6: ((3, 3), (2, 2, 2))}
_EDGE = 0.03


@dataclass(frozen=True, slots=True)
class Box:
    """A thing's square: its top left corner and its side, in pixels."""

    left: int
    top: int
    side: int


@dataclass(frozen=True, slots=True)
class Lettering:
    """A word's first cell and, for a sign, its board."""

    left: int
    top: int
    height: int
    pitch: float
    board: tuple[int, int, int, int] | None


def place_things(rng: random.Random, scene: Scene, height: int, width: int) -> list[Box]:
    shorter = min(height, width)
    centres = _centres(rng, scene)
    if scene.kind == "count":
        sides = [_diameter(rng, "count", scene.things[0], shorter)] * len(centres)
    else:
        sides = [_diameter(rng, scene.kind, thing, shorter) for thing in scene.things]
    return [_boxed(x * width, y * height, side, height, width) for (x, y), side in zip(centres, sides, strict=True)]


def _diameter(rng: random.Random, kind: str, thing: Thing, shorter: int) -> int:
    return round(rng.uniform(*_DIAMETERS[kind][thing.size]) * shorter)


def _boxed(centre_x: float, centre_y: float, side: int, height: int, width: int) -> Box:
    margin = round(_EDGE * min(height, width))
    left = min(max(round(centre_x - side / 2), margin), width - margin - side)
    top = min(max(round(centre_y - side / 2), margin), height - margin - side)
    return Box(left, top, side)


def _centres(rng: random.Random, scene: Scene) -> list[tuple[float, float]]:
    if scene.kind == "single":
        return [_single_centre(rng, scene)]
    if scene.kind == "pair":
        return _pair_centres(rng, scene.relation)
    if scene.kind == "trio":
        return _trio_centres(rng, scene.relation)
    return _grid_centres(rng, len(scene.things))


def _near(rng: random.Random, value: float, spread: float) -> float:
    return value + rng.uniform(-spread, spread)


def _single_centre(rng: random.Random, scene: Scene) -> tuple[float, float]:
    x, y = PLACES[scene.place] if scene.place else (0.5, 0.5)
    spread = 0.04 if scene.place else 0.14
    return _near(rng, x, spread), _near(rng, y, spread)


def _pair_centres(rng: random.Random, relation: str) -> list[tuple[float, float]]:
    across = _near(rng, 0.5, 0.1)
    ends = [(_near(rng, 0.26, 0.02), _near(rng, across, 0.06)), (_near(rng, 0.74, 0.02), _near(rng, across, 0.06))]
    if relation in ("above", "below"):
        ends = [(x, y) for y, x in ends]
    return ends if relation in ("left of", "above") else ends[::-1]


def _trio_centres(rng: random.Random, arrangement: str) -> list[tuple[float, float]]:
    across = _near(rng, 0.5, 0.12)
    row = [(along, _near(rng, across, 0.03)) for along in (0.18, 0.5, 0.82)]
    return row if arrangement == "from left to right" else [(x, y) for y, x in row]


def _grid_centres(rng: random.Random, count: int) -> list[tuple[float, float]]:
    rows = rng.choice(_ROWS[count])
    offset_x, offset_y = _near(rng, 0, 0.04), _near(rng, 0, 0.05)
    centres = []
    for row, in_row in enumerate(rows):
        y = 0.5 + (row - (len(rows) - 1) / 2) * (0.3 if len(rows) > 2 else 0.36)
        for column in range(in_row):
            x = 0.5 + (column - (in_row - 1) / 2) * (0.3 if in_row > 2 else 0.36)
            centres.append((_near(rng, x + offset_x, 0.012), _near(rng, y + offset_y, 0.012)))
    return centres


def place_word(rng: random.Random, scene: Scene, height: int, width: int) -> Lettering:
    """Letters stand one letter-height apart, as large as the picture allows."""
    shorter, share = min(height, width), 0.8 if scene.board else 0.9
    pitch = min(share * width / len(scene.word), 0.5 * shorter) * rng.uniform(0.92, 1.0)
    across = pitch * len(scene.word)
    free_x, free_y = (0.94 if scene.board else 0.98) * width - across, height - pitch
    left = (width - across) / 2 + rng.uniform(-0.25, 0.25) * free_x * (0.3 if scene.board else 1.0)
    top = free_y / 2 + rng.uniform(-0.1, 0.1) * free_y
    board = _board(left, top, across, pitch) if scene.board else None
    return Lettering(round(left), round(top), round(pitch), pitch, board)


def _board(left: float, top: float, across: float, pitch: float) -> tuple[int, int, int, int]:
    side, above = 0.12 * pitch + 4, 0.3 * pitch + 3
    return round(left - side), round(top - above), round(left + across + side), round(top + pitch + above)
