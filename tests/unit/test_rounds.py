"""Steps of many images gathered into few calls."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from qwen_image.sampling.step_batcher import Rounds


@dataclass(frozen=True)
class Step:
    name: str
    pack_key: str = "one size"


class Transformer:
    """Takes packs and holds them until told to answer; answers each step with its name."""

    def __init__(self) -> None:
        self.packs: list[str] = []
        self._answers: list[asyncio.Future[None]] = []

    async def send(self, steps):
        self.packs.append("".join(step.name for step in steps))
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await answer
        return [step.name for step in steps]

    def answer(self, pack: int, error: Exception | None = None) -> None:
        if error is None:
            self._answers[pack].set_result(None)
        else:
            self._answers[pack].set_exception(error)


async def settle() -> None:
    """Until the loop has nothing left to do but wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def started(rounds, names, **values):
    tasks = [asyncio.ensure_future(rounds.run(Step(name, **values))) for name in names]
    await settle()
    return tasks


def test_a_lone_step_is_sent_at_once():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8)
        (task,) = await started(rounds, "a")
        assert transformer.packs == ["a"]
        transformer.answer(0)
        assert await task == "a"
        await started(rounds, "b")
        assert transformer.packs == ["a", "b"]

    asyncio.run(story())


def test_everything_that_is_ready_goes_out_in_one_pack():
    async def story():
        transformer = Transformer()
        tasks = await started(Rounds(transformer.send, max_pack=8), "abcde")
        assert transformer.packs == ["abcde"]
        transformer.answer(0)
        assert await asyncio.gather(*tasks) == list("abcde")

    asyncio.run(story())


def test_images_that_get_their_step_together_send_the_next_one_together():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8)

        async def image(name):
            for _ in range(3):
                await rounds.run(Step(name))

        images = [asyncio.ensure_future(image(name)) for name in "abc"]
        for pack in range(3):
            await settle()
            transformer.answer(pack)
        await asyncio.gather(*images)
        assert transformer.packs == ["abc", "abc", "abc"]

    asyncio.run(story())


def test_steps_that_become_ready_while_a_round_is_out_wait_for_it():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8)
        first = await started(rounds, "a")
        later = await started(rounds, "b") + await started(rounds, "cd")
        assert transformer.packs == ["a"]
        transformer.answer(0)
        await settle()
        assert transformer.packs == ["a", "bcd"]
        transformer.answer(1)
        assert await asyncio.gather(*first, *later) == list("abcd")

    asyncio.run(story())


def test_a_round_is_back_when_its_last_pack_is():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=2)
        await started(rounds, "abc")
        await started(rounds, "d")
        transformer.answer(0)
        await settle()
        assert transformer.packs == ["ab", "c"]
        transformer.answer(1)
        await settle()
        assert transformer.packs == ["ab", "c", "d"]

    asyncio.run(story())


def test_only_steps_of_one_key_share_a_pack():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8)
        steps = [Step("a", "wide"), Step("b", "tall"), Step("c", "wide"), Step("d", "square"), Step("e", "tall")]
        tasks = [asyncio.ensure_future(rounds.run(step)) for step in steps]
        await settle()
        assert transformer.packs == ["ac", "be", "d"]
        for pack in range(3):
            transformer.answer(pack)
        assert await asyncio.gather(*tasks) == list("abcde")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("max_pack", "packs"), [(1, ["a", "b", "c", "d", "e"]), (2, ["ab", "cd", "e"]), (4, ["abcd", "e"]), (5, ["abcde"])]
)
def test_a_pack_is_never_larger_than_its_limit(max_pack, packs):
    async def story():
        transformer = Transformer()
        await started(Rounds(transformer.send, max_pack=max_pack), "abcde")
        assert transformer.packs == packs

    asyncio.run(story())


@pytest.mark.parametrize(
    ("names", "packs"), [("a", ["a"]), ("ab", ["a", "b"]), ("abcd", ["ab", "cd"]), ("abcde", ["abc", "de"])]
)
def test_two_instances_get_an_even_part_each(names, packs):
    async def story():
        transformer = Transformer()
        await started(Rounds(transformer.send, max_pack=8, max_rounds_out=2), names)
        assert transformer.packs == packs

    asyncio.run(story())


def test_the_second_instance_takes_what_comes_while_the_first_computes():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8, max_rounds_out=2)
        await started(rounds, "a")
        await started(rounds, "bc")
        await started(rounds, "de")
        assert transformer.packs == ["a", "bc"]
        transformer.answer(1)
        await settle()
        assert transformer.packs == ["a", "bc", "de"]

    asyncio.run(story())


def test_an_error_of_a_pack_reaches_its_steps_alone():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=2)
        tasks = await started(rounds, "abcd")
        transformer.answer(0, RuntimeError("instance died"))
        transformer.answer(1)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(each) for each in found] == ["instance died", "instance died", "c", "d"]
        (after,) = await started(rounds, "e")
        transformer.answer(2)
        assert await after == "e"

    asyncio.run(story())


def test_an_error_given_for_one_step_reaches_that_step_alone():
    async def send(steps):
        return [ValueError("bad") if step.name == "b" else step.name for step in steps]

    async def story():
        rounds = Rounds(send, max_pack=8)
        found = await asyncio.gather(*(rounds.run(Step(name)) for name in "abc"), return_exceptions=True)
        assert found[0] == "a"
        assert isinstance(found[1], ValueError)
        assert found[2] == "c"

    asyncio.run(story())


def test_a_transformer_that_answers_for_too_few_steps_leaves_none_waiting():
    async def story():
        async def send(steps):
            return [step.name for step in steps[1:]]

        found = await asyncio.gather(*map(Rounds(send, max_pack=8).run, map(Step, "abc")), return_exceptions=True)
        assert [type(each) for each in found] == [AssertionError] * 3

    asyncio.run(story())


def test_an_image_that_leaves_holds_nobody_up():
    async def story():
        transformer = Transformer()
        rounds = Rounds(transformer.send, max_pack=8)
        leaving, staying = await started(rounds, "ab")
        leaving.cancel()
        await settle()
        transformer.answer(0)
        assert await staying == "b"
        (after,) = await started(rounds, "c")
        transformer.answer(1)
        assert await after == "c"

    asyncio.run(story())


async def interleaving(seed: int) -> None:
    """Images of several sizes on a transformer that answers, and sometimes fails, whenever it likes."""
    chance = random.Random(seed)
    max_pack, max_rounds_out = chance.randint(1, 5), chance.randint(1, 3)
    images, steps_each = chance.randint(1, 7), chance.randint(1, 5)
    sent: list[str] = []

    async def idle():
        for _ in range(chance.choice((0, 0, 1, 2, 5, 9))):
            await asyncio.sleep(0)

    async def send(steps):
        assert 1 <= len(steps) <= max_pack
        assert len({step.pack_key for step in steps}) == 1
        sent.extend(step.name for step in steps)
        await idle()
        if chance.random() < 0.05:
            raise ConnectionError("the whole pack")
        return [ValueError(step.name) if chance.random() < 0.05 else f"{step.name} done" for step in steps]

    rounds = Rounds(send, max_pack, max_rounds_out)

    async def image(number):
        for index in range(steps_each):
            await idle()
            name = f"{number}.{index}"
            (outcome,) = await asyncio.gather(rounds.run(Step(name, chance.choice("ab"))), return_exceptions=True)
            assert str(outcome) in (f"{name} done", name, "the whole pack")

    await asyncio.wait_for(asyncio.gather(*map(image, range(images))), timeout=30)
    assert sorted(sent) == sorted(f"{number}.{index}" for number in range(images) for index in range(steps_each))


def test_a_thousand_random_interleavings_lose_and_duplicate_nothing():
    async def story():
        for seed in range(1000):
            await interleaving(seed)

    asyncio.run(story())
