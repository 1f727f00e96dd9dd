"""After which steps a stream decodes its image."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Previews:
    """What a request asks for: one after every `every` steps, or so many in all where `number` is given.

    The last step is decoded too, unless neither asks for any.
    """

    every: int
    number: int | None = None

    @property
    def wants_last(self) -> bool:
        return self.number is not None or self.every > 0

    def is_due(self, step: int, steps: int) -> bool:
        """Whether the image after `step` of `steps` steps, from 1, is decoded."""
        if step == steps:
            return self.wants_last
        if self.number is None:
            return self.every > 0 and step % self.every == 0
        return step in self._spaced(self.number, steps)

    @staticmethod
    def _spaced(number: int, steps: int) -> frozenset[int]:
        """The steps nearest to an even spread, the last one left out; fewer where there are fewer steps."""
        number = min(number, steps - 1)
        apart = steps / (number + 1)
        return frozenset(int(position * apart + 0.5) for position in range(1, number + 1))
