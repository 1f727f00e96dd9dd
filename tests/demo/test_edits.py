"""Edits as they are painted and worded, and the checker against both."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from demo.editing.arrangement import Arrangement, arrange, paint_arrangement
from demo.editing.checker import check_edit, kept_region
from demo.editing.edits import KINDS, Edit, draw_edit
from demo.editing.exam import EXAM, Question, evaluate_edits, exam
from demo.editing.instructions import instruct
from demo.painter import paint
from demo.scenes import draw_scene

REFERENCES = {kind: references for references, kinds in KINDS.items() for kind in kinds}
ONE_PICTURE = sorted(KINDS[1])
EVERY_KIND = sorted(REFERENCES)


def drawn(kind: str, count: int = 30, held_out: bool = False) -> list[Edit]:
    rng = random.Random(f"tests/{kind}")
    return [draw_edit(rng, REFERENCES[kind], held_out, kind) for _ in range(count)]


def pixels(arrangement: Arrangement) -> np.ndarray:
    return np.asarray(paint_arrangement(arrangement))


@pytest.mark.parametrize("kind", ["single", "pair", "trio"])
def test_an_arranged_scene_is_the_painted_one(kind: str) -> None:
    rng = random.Random(21)
    for seed in range(20):
        scene = draw_scene(rng, kind=kind)
        assert np.array_equal(pixels(arrange(scene, seed)), np.asarray(paint(scene, seed)))


@pytest.mark.parametrize("kind", [kind for kind in ONE_PICTURE if kind != "background"])
def test_what_is_not_asked_about_stays_pixel_for_pixel(kind: str) -> None:
    for edit in drawn(kind):
        [source] = edit.sources
        boxes = [piece.box for piece in {*source.pieces} ^ {*edit.target.pieces}]
        elsewhere = np.ones((128, 128), bool)
        for box in boxes:
            elsewhere[box.top : box.top + box.side, box.left : box.left + box.side] = False
        before, after = pixels(source), pixels(edit.target)
        assert np.array_equal(before[elsewhere], after[elsewhere])
        assert not np.array_equal(before, after)


def test_a_new_background_leaves_every_thing_where_it_was() -> None:
    for edit in drawn("background"):
        assert edit.target.pieces == edit.sources[0].pieces
        assert edit.target.background != edit.sources[0].background


def test_two_pictures_make_one_of_parts_of_both() -> None:
    for edit in drawn("compose"):
        shapes, ground = edit.sources if edit.shapes_from == 1 else edit.sources[::-1]
        assert (edit.target.pieces, edit.target.background) == (shapes.pieces, ground.background)
    for edit in drawn("borrow"):
        shapes, other = edit.sources if edit.shapes_from == 1 else edit.sources[::-1]
        assert edit.target.pieces[:-1] == other.pieces
        assert edit.target.pieces[-1] in shapes.pieces


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_training_and_held_out_edits_never_meet(kind: str) -> None:
    assert not any(edit.is_held_out for edit in drawn(kind))
    assert all(edit.is_held_out for edit in drawn(kind, held_out=True))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_words_name_what_changes(kind: str) -> None:
    rng = random.Random(22)
    for edit in drawn(kind):
        words = instruct(rng, edit).lower()
        assert edit.subject in words
        assert edit.new is None or edit.new.shape in words
        assert not edit.shapes_from or {"picture 1", "picture 2"} <= {words[i : i + 9] for i in range(len(words))}


def test_a_named_thing_is_the_only_one_of_its_name() -> None:
    for edit in drawn("remove", 200):
        *colour, shape = edit.subject.split()
        fitting = [
            piece
            for piece in edit.sources[0].pieces
            if shape in (piece.thing.shape, "shape") and colour in ([], [piece.thing.colour])
        ]
        assert len(fitting) == 1


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_true_edits_are_judged_right_and_untouched_pictures_wrong(kind: str) -> None:
    for edit in drawn(kind, held_out=True):
        assert check_edit(edit, paint_arrangement(edit.target)).is_right
        assert not any(check_edit(edit, paint_arrangement(source)).change for source in edit.sources)


def test_the_rest_must_stay_as_it_was() -> None:
    for edit in drawn("recolour", 10):
        painted = pixels(edit.target).astype(int)
        tinted = Image.fromarray(np.where(kept_region(edit)[..., None], (painted + 20) % 256, painted).astype(np.uint8))
        assert not check_edit(edit, tinted).rest


def test_a_shifted_bystander_is_found_out() -> None:
    edit = next(edit for edit in drawn("recolour", 200) if len(edit.sources[0].pieces) == 2)
    [bystander] = set(edit.target.pieces) - set(edit.touched)
    [changed] = edit.touched
    shifted = np.roll(pixels(Arrangement(edit.target.background, (bystander,))), 8, axis=1)
    both = Image.fromarray(shifted)
    both.paste(
        paint_arrangement(Arrangement(edit.target.background, (changed,))).crop(_square(changed.box)),
        _square(changed.box),
    )
    verdict = check_edit(edit, both)
    assert verdict.change
    assert not verdict.rest


def _square(box) -> tuple[int, int, int, int]:
    return box.left, box.top, box.left + box.side, box.top + box.side


def test_exam_asks_about_200_held_out_edits_and_never_changes() -> None:
    questions = exam()
    assert len(questions) == sum(EXAM.values()) >= 200
    assert all(question.edit.is_held_out for question in questions)
    assert questions == exam()


def test_an_editor_who_knows_the_answers_passes_and_leaves_sheets(tmp_path: Path) -> None:
    def generate(questions: Sequence[Question]) -> list[Image.Image]:
        return [paint_arrangement(question.edit.target) for question in questions]

    report = evaluate_edits(generate, exam()[::4])
    report.save(tmp_path)
    assert set(report.scores.values()) == {1.0}
    assert {"scores.json", "sheet.png"} == {path.name for path in tmp_path.iterdir()}


def test_an_editor_who_does_nothing_fails() -> None:
    report = evaluate_edits(lambda asked: [paint_arrangement(each.edit.sources[0]) for each in asked], exam()[::6])
    assert report.scores["everything"] == 0
