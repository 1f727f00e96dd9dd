"""What a picture shows, in words a caption can say and a checker can verify; no pixels and no wordings here."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass

from demo.colours import COLOURS, stands_out
from demo.shapes import SHAPES
from demo.split import is_held_out
from demo.words import draw_word

# How often each kind is drawn: words take the most learning.
KINDS = {"single": 14, "pair": 20, "trio": 7, "count": 14, "word": 24, "sign": 20, "blank": 1}
RELATIONS = ("left of", "right of", "above", "below")
ARRANGEMENTS = ("from left to right", "from top to bottom")
PLACES = {
    "in the centre": (0.5, 0.5),
    "at the top": (0.5, 0.26),
    "at the bottom": (0.5, 0.74),
    "on the left": (0.26, 0.5),
    "on the right": (0.74, 0.5),
    "in the top left corner": (0.26, 0.26),
    "in the top right corner": (0.74, 0.26),
    "in the bottom left corner": (0.26, 0.74),
    "in the bottom right corner": (0.74, 0.74),
}
MAX_COUNT = 6


@dataclass(frozen=True, slots=True)
class Thing:
    colour: str
    shape: str
    size: str = ""  # "small", "large", or "" for the usual


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture's content. Things are listed in reading order of `relation` or of the arrangement."""

    kind: str
    things: tuple[Thing, ...] = ()
    relation: str = ""
    place: str = ""
    word: str = ""
    ink: str = "black"
    board: str = ""  # a sign's colour
    background: tuple[str, ...] = ()  # none: a quiet tint; two: a gradient from top to bottom

    @property
    def combination(self) -> tuple[Hashable, ...]:
        """What the held-out split is made by; "A above B" and "B below A" are one combination."""
        named = tuple((thing.colour, thing.shape) for thing in self.things)
        if self.kind == "single":
            return ("single", *named, *self.background)
        if self.kind == "pair":
            forward = self.relation in ("left of", "above")
            return ("pair", self.relation in ("above", "below"), *(named if forward else named[::-1]))
        if self.kind == "count":
            return ("count", len(named), named[0])
        return (self.kind, *named)

    @property
    def is_held_out(self) -> bool:
        if self.word:
            return len(self.word) > 1 and is_held_out(("word", self.word))
        return is_held_out(self.combination)


def draw_scene(rng: random.Random, held_out: bool = False, kind: str | None = None) -> Scene:
    """A random scene of the training split, or of the held-out one."""
    kind = kind or rng.choices(tuple(KINDS), weights=tuple(KINDS.values()))[0]
    while True:
        scene = _DRAWERS[kind](rng, held_out)
        if scene.kind == "blank" or scene.is_held_out == held_out or len(scene.word) == 1:
            return scene


def _background(rng: random.Random) -> tuple[str, ...]:
    roll = rng.random()
    if roll < 0.35:
        return ()
    return tuple(rng.sample(COLOURS, 1 if roll < 0.85 else 2))


def _colour_on(rng: random.Random, background: tuple[str, ...]) -> str:
    colours = [colour for colour in COLOURS if stands_out(colour, background)]
    return rng.choice(colours) if colours else ""


def _thing(rng: random.Random, background: tuple[str, ...], sized: float = 0.0) -> Thing:
    size = rng.choice(("small", "large")) if rng.random() < sized else ""
    return Thing(_colour_on(rng, background), rng.choice(SHAPES), size)


def _visible_background(rng: random.Random) -> tuple[str, ...]:
    """A background on which at least four colours stand out."""
    while True:
        background = _background(rng)
        if sum(stands_out(colour, background) for colour in COLOURS) >= 4:
            return background


def _single(rng: random.Random, held_out: bool) -> Scene:
    background = _visible_background(rng)
    place = rng.choice(tuple(PLACES)) if rng.random() < 0.4 else ""
    return Scene("single", (_thing(rng, background, 0.4),), place=place, background=background)


def _pair(rng: random.Random, held_out: bool) -> Scene:
    background = _visible_background(rng)
    things = (_thing(rng, background, 0.2), _thing(rng, background, 0.2))
    return Scene("pair", things, relation=rng.choice(RELATIONS), background=background)


def _trio(rng: random.Random, held_out: bool) -> Scene:
    background = _visible_background(rng)
    things = tuple(_thing(rng, background) for _ in range(3))
    return Scene("trio", things, relation=rng.choice(ARRANGEMENTS), background=background)


def _count(rng: random.Random, held_out: bool) -> Scene:
    background = _visible_background(rng)
    return Scene("count", (_thing(rng, background),) * rng.randint(2, MAX_COUNT), background=background)


def _word(rng: random.Random, held_out: bool) -> Scene:
    background = _visible_background(rng)
    ink = _colour_on(rng, background) if background or rng.random() < 0.5 else "black"
    return Scene("word", word=draw_word(rng, held_out), ink=ink, background=background)


def _sign(rng: random.Random, held_out: bool) -> Scene:
    board = rng.choice(COLOURS) if rng.random() < 0.5 else "white"
    ink = "black" if stands_out("black", (board,)) else "white"
    background = rng.choice([b for b in ((), *((c,) for c in COLOURS)) if stands_out(board, b)])
    return Scene("sign", word=draw_word(rng, held_out), ink=ink, board=board, background=background)


def _blank(rng: random.Random, held_out: bool) -> Scene:
    return Scene("blank", background=tuple(rng.sample(COLOURS, rng.choice((1, 1, 2)))))


_DRAWERS = {
    "single": _single,
    "pair": _pair,
    "trio": _trio,
    "count": _count,
    "word": _word,
    "sign": _sign,
    "blank": _blank,
}
