"""Text states of the prompts used last.

Triton's own response cache also keeps answers that were errors, and hands them out later as empty successes (measured
on 2.51), so that one failure would break a prompt until the server restarts. This one sees nothing but states; it is
keyed by a single prompt, so a negative prompt that many share is found whatever it comes with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.float32]


class HasKey(Protocol):
    """A prompt. Only its key is held, so the key must not hold what is large."""

    @property
    def key(self) -> Hashable: ...


Prompt = TypeVar("Prompt", bound=HasKey)


class StatesCache(Generic[Prompt]):
    """At most `max_bytes` of states; the ones used longest ago go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._states: OrderedDict[Hashable, States] = OrderedDict()
        self._bytes = 0
        self.hits = 0
        self.misses = 0

    def get_all(
        self, prompts: Sequence[Prompt], encode: Callable[[Sequence[Prompt]], Sequence[States]]
    ) -> list[States]:
        """The states of every prompt, (T_i, dim) each; those not held are encoded together, each once."""
        keys = [prompt.key for prompt in prompts]
        held = {key: self._states[key] for key in keys if key in self._states}
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in held}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        if missing:
            held |= zip(missing, encode(list(missing.values())), strict=True)
        for key in keys:
            self._keep(key, held[key])
        return [held[key] for key in keys]

    def _keep(self, key: Hashable, states: States) -> None:
        if key not in self._states:
            self._states[key] = states
            self._bytes += states.nbytes
        self._states.move_to_end(key)
        while self._bytes > self._max_bytes:
            self._bytes -= self._states.popitem(last=False)[1].nbytes
