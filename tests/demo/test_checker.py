"""The checker against the painter: it must see in a true picture what was painted."""

import random

import pytest
from PIL import ImageFilter

from demo.captions import caption
from demo.checker import check
from demo.find_shapes import find_shapes
from demo.painter import paint
from demo.scenes import KINDS, Scene, Thing, draw_scene

SIZES = ((128, 128), (96, 128), (128, 192), (192, 128), (160, 160))


@pytest.mark.parametrize("held_out", [False, True])
def test_true_scenes_are_judged_right(held_out: bool) -> None:
    rng = random.Random(11)
    scenes = [draw_scene(rng, held_out, kind) for kind in KINDS if kind != "blank" for _ in range(25)]
    right = sum(check(scene, paint(scene, i, *SIZES[i % len(SIZES)])).is_right for i, scene in enumerate(scenes))
    assert right / len(scenes) >= 0.97


def test_slightly_blurred_scenes_are_still_judged_right() -> None:
    rng = random.Random(12)
    scenes = [draw_scene(rng, kind=kind) for kind in ("single", "pair", "count", "word") for _ in range(20)]
    blurred = [paint(scene, i).filter(ImageFilter.GaussianBlur(0.7)) for i, scene in enumerate(scenes)]
    right = sum(check(scene, image).is_right for scene, image in zip(scenes, blurred, strict=True))
    assert right / len(scenes) >= 0.9


RED_ABOVE_BLUE = Scene("pair", (Thing("red", "circle"), Thing("blue", "square")), relation="above")


@pytest.mark.parametrize(
    ("claimed", "part"),
    [
        (Scene("pair", (Thing("red", "circle"), Thing("green", "square")), relation="above"), "things"),
        (Scene("pair", (Thing("red", "circle"), Thing("blue", "star")), relation="above"), "things"),
        (Scene("pair", (Thing("red", "circle"), Thing("blue", "square")), relation="below"), "relation"),
        (Scene("count", (Thing("red", "circle"),) * 3), "count"),
        (Scene("word", word="CAT"), "word"),
    ],
)
def test_wrong_claims_are_found_out(claimed: Scene, part: str) -> None:
    verdict = check(claimed, paint(RED_ABOVE_BLUE, 1))
    assert getattr(verdict, part) is False
    assert not verdict.is_right


def test_one_wrong_letter_is_a_wrong_word() -> None:
    verdict = check(Scene("word", word="HELLA"), paint(Scene("word", word="HELLO"), 1))
    assert verdict.seen == "HELLO"
    assert verdict.word is False


def test_an_empty_picture_shows_nothing() -> None:
    assert find_shapes(paint(Scene("blank", background=("blue", "teal")), 1)) == []


def test_above_and_below_are_one_combination() -> None:
    mirrored = Scene("pair", RED_ABOVE_BLUE.things[::-1], relation="below")
    assert mirrored.combination == RED_ABOVE_BLUE.combination


def test_training_and_held_out_scenes_never_meet() -> None:
    rng = random.Random(13)
    assert not any(draw_scene(rng).is_held_out for _ in range(500))
    assert all(draw_scene(rng, held_out=True, kind=kind).is_held_out for kind in ("single", "pair", "count", "sign"))


def test_complete_captions_name_every_thing() -> None:
    rng = random.Random(14)
    for _ in range(200):
        scene = draw_scene(rng, kind="trio")
        text = caption(rng, scene, complete=True)
        assert all(thing.shape in text for thing in scene.things)
