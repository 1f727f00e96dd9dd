"""Scenes to words, in many wordings; some training captions say less than the picture shows."""

from __future__ import annotations

import random

from demo.colours import SYNONYMS
from demo.scenes import Scene, Thing

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")
_OPENINGS = ("", "", "", "", "a picture of ", "an image of ", "a drawing of ", "a painting of ")
_RELATIONS = {
    "left of": ("to the left of", "left of", "on the left of"),
    "right of": ("to the right of", "right of", "on the right of"),
    "above": ("above", "over", "on top of"),
    "below": ("below", "under", "beneath"),
}
_IN_ROW = {"from left to right": ("in a row", "side by side"), "from top to bottom": ("in a column", "stacked")}
_VAGUE = 0.12


def caption(rng: random.Random, scene: Scene, complete: bool = False) -> str:
    """A caption of the scene. A complete one names every thing, colour, relation and word."""
    vague = not complete and rng.random() < _VAGUE
    opening = rng.choice(_OPENINGS)
    text = opening + _WORDINGS[scene.kind](rng, scene, vague) + _background(rng, scene, vague)
    if rng.random() < 0.25:
        text = text[0].upper() + text[1:]
    return text + rng.choice(("", "", "", "."))


def _with_article(phrase: str) -> str:
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def _colour(rng: random.Random, colour: str) -> str:
    return rng.choice(SYNONYMS[colour]) if colour in SYNONYMS and rng.random() < 0.2 else colour


def _name(rng: random.Random, thing: Thing, vague: bool = False) -> str:
    """ "large red circle"; a vague one leaves out the colour, the shape or both."""
    size = rng.choice({"small": ("small", "tiny"), "large": ("large", "big"), "": ("",)}[thing.size])
    colour, shape = _colour(rng, thing.colour), thing.shape
    if vague:
        colour, shape = rng.choice((("", shape), (colour, "shape"), (colour, "shape"), ("", "shape")))
    return " ".join(part for part in (size, colour, shape) if part)


def _background(rng: random.Random, scene: Scene, vague: bool) -> str:
    if scene.kind == "blank" or not scene.background or (vague and rng.random() < 0.3):
        return ""
    names = [_colour(rng, name) for name in scene.background]
    preposition = rng.choice((" on ", " on ", " against ", " with "))
    if len(names) == 2:
        return preposition + _gradient(rng, names)
    return preposition + _with_article(f"{names[0]} background")


def _gradient(rng: random.Random, names: list[str]) -> str:
    first, second = names
    return rng.choice(
        (
            _with_article(f"{first} to {second} gradient background"),
            f"a gradient background from {first} to {second}",
            f"a background that fades from {first} to {second}",
        )
    )


def _single(rng: random.Random, scene: Scene, vague: bool) -> str:
    name = _name(rng, scene.things[0], vague)
    if not scene.place:
        return name if rng.random() < 0.1 else _with_article(name)
    place = scene.place.replace("centre", rng.choice(("centre", "center", "middle")))
    return f"{_with_article(name)} {place}"


def _pair(rng: random.Random, scene: Scene, vague: bool) -> str:
    first, second = (_with_article(_name(rng, thing, vague)) for thing in scene.things)
    if vague and rng.random() < 0.5:
        return f"{first} and {second}"
    return f"{first} {rng.choice(_RELATIONS[scene.relation])} {second}"


def _trio(rng: random.Random, scene: Scene, vague: bool) -> str:
    first, second, third = (_with_article(_name(rng, thing)) for thing in scene.things)
    if vague:
        return f"{first}, {second} and {third}"
    arrangement = rng.choice((scene.relation, scene.relation, *_IN_ROW[scene.relation]))
    return f"{first}, {second} and {third} {arrangement}"


def _count(rng: random.Random, scene: Scene, vague: bool) -> str:
    name = _name(rng, scene.things[0], vague)
    plural = name + ("es" if name.endswith("s") else "s")
    return f"{_NUMBERS[len(scene.things)]} {plural}"


def _quoted(rng: random.Random, word: str) -> str:
    return rng.choice((word, word, f'"{word}"'))


def _ink(rng: random.Random, scene: Scene, vague: bool) -> str:
    if scene.ink == "black" and not scene.background and rng.random() < 0.7:
        return ""
    return "" if vague else f" in {_colour(rng, scene.ink)}" + rng.choice(("", " letters"))


def _word(rng: random.Random, scene: Scene, vague: bool) -> str:
    noun = "number" if scene.word.isdigit() else "word"
    word = _quoted(rng, scene.word)
    subject = rng.choice(
        (f"the {noun} {word}", f"the {noun} {word}", f"the text {word}", f"large letters saying {word}")
    )
    if len(scene.word) == 1 and rng.random() < 0.6:
        subject = f"the {'digit' if scene.word.isdigit() else 'letter'} {word}"
    return subject + _ink(rng, scene, vague)


def _sign(rng: random.Random, scene: Scene, vague: bool) -> str:
    colour = "" if vague or (scene.board == "white" and rng.random() < 0.8) else _colour(rng, scene.board) + " "
    verb = rng.choice(("that says", "that says", "saying", "with the word", "that reads"))
    return f"{_with_article(colour + 'sign')} {verb} {_quoted(rng, scene.word)}"


def _blank(rng: random.Random, scene: Scene, vague: bool) -> str:
    names = [_colour(rng, name) for name in scene.background]
    if len(names) == 2:
        return _gradient(rng, names)
    return rng.choice((_with_article(f"{names[0]} background"), _with_article(f"plain {names[0]} background")))


_WORDINGS = {
    "single": _single,
    "pair": _pair,
    "trio": _trio,
    "count": _count,
    "word": _word,
    "sign": _sign,
    "blank": _blank,
}
