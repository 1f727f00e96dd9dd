"""Whether a picture shows what its scene says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from PIL import Image

from demo.find_shapes import Found, find_shapes
from demo.glyphs import DIGITS, LETTERS
from demo.read_word import read_word
from demo.scenes import Scene


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was asked for and seen; None where the scene asks nothing of the kind."""

    things: bool | None = None  # every colour and shape, and nothing else
    relation: bool | None = None
    count: bool | None = None
    word: bool | None = None
    seen: str = ""

    @property
    def is_right(self) -> bool:
        return all(part is not False for part in (self.things, self.relation, self.count, self.word))


def check(scene: Scene, image: Image.Image) -> Verdict:
    if scene.word:
        seen = read_word(image, DIGITS if scene.word.isdigit() else LETTERS, on_board=bool(scene.board))
        return Verdict(word=seen == scene.word, seen=seen)
    found = find_shapes(image)
    seen = ", ".join(f"{thing.colour} {thing.shape}" for thing in found)
    things = Counter((thing.colour, thing.shape) for thing in found) == Counter(
        (thing.colour, thing.shape) for thing in scene.things
    )
    if scene.kind == "count":
        return Verdict(things=things, count=len(found) == len(scene.things), seen=seen)
    relation = _in_order(scene, found) if scene.relation else None
    return Verdict(things=things, relation=relation, seen=seen)


def _in_order(scene: Scene, found: list[Found]) -> bool:
    """Whether the things stand as the relation or arrangement says."""
    upright = scene.relation in ("above", "below", "from top to bottom")
    ordered = sorted(found, key=lambda thing: thing.centre_y if upright else thing.centre_x)
    names = [(thing.colour, thing.shape) for thing in ordered]
    expected = [(thing.colour, thing.shape) for thing in scene.things]
    return names == (expected[::-1] if scene.relation in ("right of", "below") else expected)
