"""Who is served now, who waits, who is refused."""

from __future__ import annotations

import asyncio

import pytest

from qwen_image.errors import Cancelled, Unavailable
from qwen_image.request.admission import Admission


def is_wanted() -> None:
    """Nothing to raise."""


async def hold(admission: Admission, images: int, log: list[str], name: str, done: asyncio.Event) -> None:
    async with admission.place(images, is_wanted):
        log.append(name)
        await done.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_places_are_given_in_the_order_of_asking():
    async def story() -> list[str]:
        admission, log, done = Admission(1, 8), [], [asyncio.Event() for _ in range(3)]
        tasks = []
        for number, event in enumerate(done):
            tasks.append(asyncio.ensure_future(hold(admission, 1, log, str(number), event)))
            await settle()
        for event in done:
            assert admission.in_flight == 1
            event.set()
            await settle()
        await asyncio.gather(*tasks)
        assert (admission.in_flight, admission.waiting) == (0, 0)
        return log

    assert asyncio.run(story()) == ["0", "1", "2"]


def test_one_more_than_may_wait_is_refused_at_once_and_the_others_are_served():
    async def story() -> None:
        admission, log, done = Admission(1, 1), [], asyncio.Event()
        tasks = [asyncio.ensure_future(hold(admission, 1, log, str(number), done)) for number in range(4)]
        await settle()
        refused = [task for task in tasks if task.done()]
        assert [str(task.exception()).split(";")[0] for task in refused] == [
            "the queue is full: 1 images are in flight and 1 wait, at most 1 may"
        ] * 2
        assert all(isinstance(task.exception(), Unavailable) for task in refused)
        done.set()
        await asyncio.gather(*(task for task in tasks if task not in refused))
        assert log == ["0", "1"]

    asyncio.run(story())


def test_a_newcomer_does_not_overtake_those_who_wait():
    async def story() -> list[str]:
        admission, log = Admission(1, 8), []
        first, rest = asyncio.Event(), asyncio.Event()
        rest.set()
        tasks = [asyncio.ensure_future(hold(admission, 1, log, "first", first))]
        await settle()
        tasks.append(asyncio.ensure_future(hold(admission, 1, log, "second", rest)))
        await settle()
        first.set()
        tasks.append(asyncio.ensure_future(hold(admission, 1, log, "newcomer", rest)))
        await asyncio.gather(*tasks)
        return log

    assert asyncio.run(story()) == ["first", "second", "newcomer"]


def test_one_that_is_not_wanted_any_more_leaves_the_queue():
    async def story() -> None:
        changes: list[int] = []
        admission, log, done = Admission(1, 8, changes.append), [], asyncio.Event()
        holder = asyncio.ensure_future(hold(admission, 1, log, "holder", done))
        await settle()

        def not_wanted() -> None:
            raise Cancelled("ended")

        with pytest.raises(Cancelled):
            async with admission.place(1, not_wanted):
                raise AssertionError("was given a place")
        assert admission.waiting == 0
        assert changes == [1, -1]
        done.set()
        await holder
        assert admission.in_flight == 0

    asyncio.run(story())


def test_a_request_of_many_images_takes_its_places_together():
    async def story() -> None:
        admission = Admission(4, 8)
        async with admission.place(3, is_wanted):
            async with admission.place(8, is_wanted):  # a place is free: it is not left hungry for ever
                assert admission.in_flight == 11
            assert admission.in_flight == 3
        assert admission.in_flight == 0

    asyncio.run(story())
