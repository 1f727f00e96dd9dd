"""A step that failed is tried again: a few times, not for long, and only while somebody waits for its image."""

from __future__ import annotations

import asyncio
import time

import pytest

from qwen_image.errors import Cancelled, InvalidRequest, NotHeld, QwenImageError, Unavailable
from qwen_image.sampling.retry import RETRY_WITHIN_S, retry


class Step:
    """Fails with these errors, one a try, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self._errors:
            raise self._errors.pop(0)
        return "latents"


def wanted() -> None:
    pass


def run(step: Step, check_wanted=wanted, **options) -> str:
    return asyncio.run(retry(step, check_wanted, **{"pauses_s": (0.0, 0.0, 0.0), **options}))


def test_a_step_that_fails_three_times_still_arrives():
    step = Step(QwenImageError("out of memory"), NotHeld("states"), QwenImageError("out of memory"))
    assert run(step) == "latents"
    assert step.tries == 4


def test_the_fourth_failure_is_the_images_error():
    step = Step(*(QwenImageError(f"failure {number}") for number in (1, 2, 3, 4)))
    with pytest.raises(QwenImageError, match="failure 4"):
        run(step)


@pytest.mark.parametrize("error", [InvalidRequest("latents"), Unavailable("the process of dit is dead")])
def test_what_would_fail_again_is_not_tried_again(error):
    step = Step(error)
    with pytest.raises(type(error)):
        run(step)
    assert step.tries == 1


def test_an_image_that_was_cancelled_while_its_step_failed_leaves_after_that_try():
    def cancelled() -> None:
        raise Cancelled("request r was cancelled")

    step = Step(QwenImageError("out of memory"))
    with pytest.raises(Cancelled):
        run(step, cancelled)
    assert step.tries == 1


def test_tries_end_some_time_after_the_first_failure_however_few_they_were():
    step = Step(*[QwenImageError("a slow failure")] * 4)
    with pytest.raises(QwenImageError, match="a slow failure"):
        run(step, within_s=0.0)
    assert step.tries == 1
    assert RETRY_WITHIN_S <= 10


def test_how_long_a_step_took_before_it_failed_does_not_count():
    class Slow(Step):
        async def __call__(self) -> str:
            time.sleep(0.2)
            return await super().__call__()

    step = Slow(QwenImageError("after minutes on a CPU"))
    assert run(step, within_s=0.1) == "latents"
