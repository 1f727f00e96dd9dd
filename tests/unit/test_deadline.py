"""A request's own timeout."""

from __future__ import annotations

import pytest

from qwen_image.errors import Unavailable
from qwen_image.request.deadline import LATEST_NS, Deadline


def test_one_that_has_passed_says_which():
    with pytest.raises(Unavailable, match=r"^timeout=1500 microseconds, which the request gave itself, have passed"):
        Deadline(timeout_us=1500, passes_at_ns=1).check()


def test_without_a_timeout_none_ever_passes():
    assert Deadline.from_now(0) == Deadline(timeout_us=0, passes_at_ns=0)
    Deadline.from_now(0).check()


@pytest.mark.parametrize("timeout_us", [60_000_000, 2**63 - 1, 2**64 - 1])
def test_one_that_lies_ahead_fits_its_tensor_and_has_not_passed(timeout_us):
    deadline = Deadline.from_now(timeout_us)
    assert 0 < deadline.passes_at_ns <= LATEST_NS
    deadline.check()
