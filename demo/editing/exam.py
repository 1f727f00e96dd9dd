"""Held-out edits, asked of anything that edits, and what became of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from demo.editing.arrangement import SIDE, paint_arrangement
from demo.editing.checker import EditVerdict, check_edit
from demo.editing.edits import KINDS, Edit, draw_edit
from demo.editing.instructions import instruct
from demo.sheet import contact_sheet

# How many held-out edits of each kind are asked for.
EXAM = {
    "recolour": 30,
    "remove": 28,
    "move": 30,
    "background": 20,
    "add": 30,
    "replace": 30,
    "compose": 20,
    "borrow": 20,
}
GOAL = 0.85
_BESIDE = 4  # pixels between pictures of one request


@dataclass(frozen=True, slots=True)
class Question:
    edit: Edit
    prompt: str
    seed: int


# Questions in, pictures in the same order out.
GenerateEdits = Callable[[Sequence[Question]], Sequence[Image.Image]]


def exam(seed: int = 2025) -> list[Question]:
    """The same held-out edits every time."""
    rng = random.Random(seed)
    references = {kind: count for count, kinds in KINDS.items() for kind in kinds}
    edits = [draw_edit(rng, references[kind], True, kind) for kind, count in EXAM.items() for _ in range(count)]
    return [Question(edit, instruct(rng, edit), i) for i, edit in enumerate(edits)]


@dataclass(frozen=True, slots=True)
class EditReport:
    questions: list[Question]
    images: list[Image.Image]
    verdicts: list[EditVerdict]

    @property
    def scores(self) -> dict[str, float]:
        """Shares of pictures that are right: what was asked for, the rest, and both, of all and of every kind."""
        answers = {
            "change": [verdict.change for verdict in self.verdicts],
            "rest": [verdict.rest for verdict in self.verdicts],
            "everything": [verdict.is_right for verdict in self.verdicts],
        }
        for question, verdict in zip(self.questions, self.verdicts, strict=True):
            answers.setdefault(f"all of {question.edit.kind}", []).append(verdict.is_right)
        return {name: sum(values) / len(values) for name, values in answers.items()}

    def failures(self) -> list[int]:
        return [i for i, verdict in enumerate(self.verdicts) if not verdict.is_right]

    def save(self, folder: Path) -> None:
        """The scores as JSON, a sheet of the first four edits of every kind and one of what went wrong."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scores.json").write_text(json.dumps(self.scores, indent=2) + "\n")
        by_kind: dict[str, list[int]] = {}
        for i, question in enumerate(self.questions):
            by_kind.setdefault(question.edit.kind, []).append(i)
        self._sheet([i for chosen in by_kind.values() for i in chosen[:4]], folder / "sheet.png")
        self._sheet(self.failures()[:48], folder / "failures.png", with_seen=True)

    def _sheet(self, chosen: list[int], path: Path, with_seen: bool = False) -> None:
        notes = [self.questions[i].prompt + (f" -> {self.verdicts[i].seen}" if with_seen else "") for i in chosen]
        if chosen:
            rows = [before_and_after(self.questions[i].edit, self.images[i]) for i in chosen]
            contact_sheet(rows, notes, columns=4).save(path, optimize=True)


def before_and_after(edit: Edit, image: Image.Image) -> Image.Image:
    """The pictures that were brought, and at the right the one that was made."""
    pictures = [*map(paint_arrangement, edit.sources), image]
    strip = Image.new("RGB", (len(pictures) * (SIDE + _BESIDE) - _BESIDE, SIDE), "white")
    for i, picture in enumerate(pictures):
        strip.paste(picture, (i * (SIDE + _BESIDE), 0))
    return strip


def evaluate_edits(generate: GenerateEdits, questions: Sequence[Question] | None = None) -> EditReport:
    """Ask for every question's picture and check it."""
    asked = list(exam() if questions is None else questions)
    images = list(generate(asked))
    return EditReport(asked, images, [check_edit(q.edit, image) for q, image in zip(asked, images, strict=True)])
