"""After which steps a stream decodes its image."""

from __future__ import annotations

import pytest

from qwen_image.sampling.previews import Previews


def due(previews: Previews, steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if previews.is_due(step, steps)]


@pytest.mark.parametrize(
    ("previews", "steps", "expected"),
    [
        (Previews(every=0), 5, []),
        (Previews(every=2), 5, [2, 4, 5]),
        (Previews(every=9), 5, [5]),
        (Previews(every=1, number=0), 5, [5]),
        (Previews(every=1, number=1), 50, [25, 50]),
        (Previews(every=1, number=2), 50, [17, 33, 50]),
        (Previews(every=1, number=3), 50, [13, 25, 38, 50]),
        (Previews(every=1, number=3), 2, [1, 2]),
        (Previews(every=1, number=3), 1, [1]),
        (Previews(every=1, number=2**31 - 1), 3, [1, 2, 3]),
    ],
)
def test_steps_that_are_decoded(previews, steps, expected):
    assert due(previews, steps) == expected


def test_no_more_are_made_than_were_asked_for_and_fewer_only_where_there_are_fewer_steps():
    for steps in range(1, 60):
        for number in range(5):
            assert len(due(Previews(every=1, number=number), steps)) == min(number, steps - 1) + 1
