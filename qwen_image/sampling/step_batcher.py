"""Steps of many images gathered into few calls of the transformer.

If every image sent its step the moment it was ready, two cohorts would form that take turns: one computes while the
other waits, and no batch ever holds more than its half. So a sampler sends in rounds: while calls are out, steps that
become ready wait; when a call comes back, everything that is ready by then goes out together. An image that is alone
never waits. Measured: docs/benchmarks.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Packable(Protocol):
    """A step that can share a call with others of the same key."""

    @property
    def pack_key(self) -> Hashable: ...


StepT = TypeVar("StepT", bound=Packable)
ResultT = TypeVar("ResultT")
Send = Callable[[Sequence[StepT]], Awaitable[Sequence[ResultT | Exception]]]


@dataclass(slots=True, eq=False)
class _Waiting(Generic[StepT, ResultT]):
    step: StepT
    result: asyncio.Future[ResultT]


@dataclass(slots=True)
class Rounds(Generic[StepT, ResultT]):
    """`send` carries one pack of steps and gives a result or an error for each. Lives on one event loop."""

    send: Send[StepT, ResultT]
    max_pack: int  # steps in one call
    max_rounds_out: int = 1  # as many as the transformer has instances
    _waiting: list[_Waiting[StepT, ResultT]] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _is_flush_due: bool = False

    async def run(self, step: StepT) -> ResultT:
        """The step's result, once its round has been out and back."""
        waiting = _Waiting[StepT, ResultT](step, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._make_flush_due()
        return await waiting.result

    def _make_flush_due(self) -> None:
        """Flush after the coroutines that are ready now have had their turn to join."""
        if not self._is_flush_due and self._waiting and len(self._tasks) < self.max_rounds_out:
            self._is_flush_due = True
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: loop.call_soon(self._flush))

    def _flush(self) -> None:
        self._is_flush_due = False
        steps, self._waiting = self._waiting, []
        share = -(-len(steps) // (self.max_rounds_out - len(self._tasks)))  # an even part for every free instance
        for start in range(0, len(steps), share):
            task = asyncio.ensure_future(self._round(steps[start : start + share]))
            self._tasks.add(task)
            task.add_done_callback(self._round_is_back)

    def _round_is_back(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._make_flush_due()

    async def _round(self, steps: list[_Waiting[StepT, ResultT]]) -> None:
        packs: dict[Hashable, list[_Waiting[StepT, ResultT]]] = {}
        for waiting in steps:
            packs.setdefault(waiting.step.pack_key, []).append(waiting)
        await asyncio.gather(
            *(
                self._pack(pack[start : start + self.max_pack])
                for pack in packs.values()
                for start in range(0, len(pack), self.max_pack)
            )
        )

    async def _pack(self, pack: list[_Waiting[StepT, ResultT]]) -> None:
        try:
            results = await self.send([waiting.step for waiting in pack])
            assert len(results) == len(pack), f"{len(results)} results for {len(pack)} steps"
        except Exception as error:
            results = [error] * len(pack)
        for waiting, result in zip(pack, results, strict=True):
            if waiting.result.done():
                continue
            if isinstance(result, Exception):
                waiting.result.set_exception(result)
            else:
                waiting.result.set_result(result)
