"""Edits to words, in many wordings."""

from __future__ import annotations

import random
from collections.abc import Callable

from demo.colours import SYNONYMS
from demo.editing.edits import Edit


def instruct(rng: random.Random, edit: Edit) -> str:
    """A sentence that asks for the edit, for all of it and nothing else."""
    text = _WORDINGS[edit.kind](rng, edit)
    if rng.random() < 0.25:
        text = text[0].upper() + text[1:]
    return text + rng.choice(("", "", "", "."))


def _colour(rng: random.Random, colour: str) -> str:
    return rng.choice(SYNONYMS[colour]) if colour in SYNONYMS and rng.random() < 0.15 else colour


def _with_article(phrase: str) -> str:
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def _recolour(rng: random.Random, edit: Edit) -> str:
    subject, colour = edit.subject, _colour(rng, edit.colour)
    return rng.choice(
        (
            f"make the {subject} {colour}",
            f"make the {subject} {colour}",
            f"paint the {subject} {colour}",
            f"turn the {subject} {colour}",
            f"change the colour of the {subject} to {colour}",
            f"change the color of the {subject} to {colour}",
        )
    )


def _remove(rng: random.Random, edit: Edit) -> str:
    return rng.choice(("remove", "remove", "delete", "erase", "take away")) + f" the {edit.subject}"


def _move(rng: random.Random, edit: Edit) -> str:
    verb = rng.choice(("move", "move", "put", "shift"))
    return f"{verb} the {edit.subject} {_towards(rng, edit.place)}"


def _towards(rng: random.Random, place: str) -> str:
    if place == "centre":
        return "to the " + rng.choice(("centre", "center", "middle"))
    if place.endswith("corner"):
        return rng.choice(("to", "into", "in")) + f" the {place}"
    return f"to the {place}"


def _background(rng: random.Random, edit: Edit) -> str:
    colour = _colour(rng, edit.colour)
    return rng.choice(
        (
            f"make the background {colour}",
            f"make the background {colour}",
            f"change the background to {colour}",
            f"paint the background {colour}",
            f"use {_with_article(colour)} background",
        )
    )


def _add(rng: random.Random, edit: Edit) -> str:
    assert edit.new is not None
    thing = _with_article(f"{_colour(rng, edit.new.colour)} {edit.new.shape}")
    return rng.choice(("add", "add", "draw", "put")) + f" {thing} {_where(rng, edit.place)}"


def _where(rng: random.Random, place: str) -> str:
    if place == "centre":
        return "in the " + rng.choice(("centre", "center", "middle"))
    if place.endswith("corner"):
        return f"in the {place}"
    usual = "on" if place in ("left", "right") else "at"
    return rng.choice((usual, usual, "to")) + f" the {place}"


def _replace(rng: random.Random, edit: Edit) -> str:
    assert edit.new is not None
    shape, colour = edit.new.shape, edit.new.colour
    if not colour:
        new = _with_article(shape)
        return rng.choice((f"turn the {edit.subject} into {new}", f"change the {edit.subject} into {new}"))
    new = _with_article(f"{_colour(rng, colour)} {shape}")
    return rng.choice(
        (
            f"replace the {edit.subject} with {new}",
            f"replace the {edit.subject} with {new}",
            f"replace the {edit.subject} by {new}",
            f"turn the {edit.subject} into {new}",
        )
    )


def _compose(rng: random.Random, edit: Edit) -> str:
    shapes, ground = edit.shapes_from, 3 - edit.shapes_from
    noun = "shape" if len(edit.target.pieces) == 1 else "shapes"
    if len(edit.target.pieces) == 1 and rng.random() < 0.3:
        noun = edit.target.pieces[0].thing.shape
    return rng.choice(
        (
            f"put the {noun} of picture {shapes} on the background of picture {ground}",
            f"put the {noun} of picture {shapes} on the background of picture {ground}",
            f"place the {noun} from picture {shapes} on the background of picture {ground}",
            f"use the background of picture {ground} for picture {shapes}",
            f"give picture {shapes} the background of picture {ground}",
        )
    )


def _borrow(rng: random.Random, edit: Edit) -> str:
    shapes, other = edit.shapes_from, 3 - edit.shapes_from
    return rng.choice(
        (
            f"add the {edit.subject} of picture {shapes} to picture {other}",
            f"add the {edit.subject} of picture {shapes} to picture {other}",
            f"put the {edit.subject} from picture {shapes} into picture {other}",
            f"copy the {edit.subject} of picture {shapes} to picture {other}",
        )
    )


_WORDINGS: dict[str, Callable[[random.Random, Edit], str]] = {
    "recolour": _recolour,
    "remove": _remove,
    "move": _move,
    "background": _background,
    "add": _add,
    "replace": _replace,
    "compose": _compose,
    "borrow": _borrow,
}
