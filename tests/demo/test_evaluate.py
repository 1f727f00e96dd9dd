"""The exam: held-out prompts, a generator of any kind, and scores."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from demo.evaluate import EXAM, GOALS, evaluate, exam, time_one
from demo.painter import paint


def test_exam_asks_over_200_held_out_prompts_and_never_changes() -> None:
    questions = exam()
    assert len(questions) == sum(EXAM.values()) > 200
    assert all(question.scene.is_held_out for question in questions)
    assert questions == exam()


def test_a_painter_who_knows_the_scenes_passes(tmp_path: Path) -> None:
    questions = exam()[::5]
    scenes = {question.prompt: question.scene for question in questions}

    def generate(prompts: Sequence[str], seeds: Sequence[int]) -> list[Image.Image]:
        return [paint(scenes[prompt], seed) for prompt, seed in zip(prompts, seeds, strict=True)]

    report = evaluate(generate, questions)
    report.save(tmp_path)
    assert all(report.scores[name] >= 0.97 for name in GOALS)
    assert {"scores.json", "sheet.png"} <= {path.name for path in tmp_path.iterdir()}


def test_blank_pictures_fail() -> None:
    report = evaluate(lambda prompts, seeds: [Image.new("RGB", (128, 128), "white")] * len(prompts), exam()[::20])
    assert report.scores["everything"] == 0


def test_pictures_are_timed_alone_after_one_to_warm_up() -> None:
    asked: list[Sequence[str]] = []

    def generate(prompts: Sequence[str], seeds: Sequence[int]) -> list[Image.Image]:
        asked.append(prompts)
        return [Image.new("RGB", (128, 128))]

    assert len(time_one(generate, repetitions=3)) == 3
    assert len(asked) == 4
    assert all(len(prompts) == 1 for prompts in asked)
