"""What a load test finds fault with."""

from __future__ import annotations

import pytest

from scripts.load_clients import Outcome
from scripts.load_report import GROWTH_BYTES, Report

FLAT = [(5.0 * sample, 2 << 30) for sample in range(20)]
GOOD = [
    Outcome("paint", "right", 1.0),
    Outcome("paint", "refused", 0.01),
    Outcome("stream", "refused in the stream", 0.5),
    Outcome("leave", "left", 0.2),
]


def test_answers_refusals_and_leaving_break_no_promise():
    assert Report(GOOD, FLAT, 0).broken() == []


@pytest.mark.parametrize(
    ("outcomes", "memory", "images_left", "words"),
    [
        ([Outcome("edit", "a wrong picture: 200 of 255 away", 1.0)], FLAT, 0, "1 times edit: a wrong picture: 200"),
        ([Outcome("paint", "TimeoutError: ", 120.0)] * 2, FLAT, 0, "2 times paint: TimeoutError"),
        ([Outcome("paint", "refused", 0.2)], FLAT, 0, "p99 of refusals is 0.198 s, over 0.1 s"),
        ([], FLAT, 3, "3 images are still in flight"),
        ([], [(s, size + int(s) * GROWTH_BYTES // 20) for s, size in FLAT], 0, "memory grew by"),
    ],
    ids=["wrong", "lost", "slow", "kept", "growing"],
)
def test_a_broken_promise_is_told(outcomes, memory, images_left, words):
    (found,) = Report([*GOOD, *outcomes], memory, images_left).broken()
    assert words in found


def test_refusing_everybody_is_no_way_to_keep_the_promises():
    assert Report(GOOD[1:], FLAT, 0).broken() == ["nothing was answered"]


def test_memory_may_grow_while_it_settles():
    settling = [(5.0 * sample, (2 << 30) - (3 - sample) * GROWTH_BYTES) for sample in range(3)]
    assert Report(GOOD, [*settling, *FLAT[3:]], 0).broken() == []


def test_the_table_has_a_row_for_every_way_to_end():
    table = Report(GOOD, FLAT, 0).table()
    for outcome in GOOD:
        assert f"| {outcome.behaviour} | {outcome.ending} | 1 |" in table
