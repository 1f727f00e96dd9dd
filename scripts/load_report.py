"""What came of a load test: a table, and the promises that were broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scripts.load_clients import Outcome

EXPECTED = ("right", "refused", "refused in the stream", "left")
REFUSED_WITHIN_S = 0.1
SETTLING_SHARE = 0.2  # of the time, in which memory may still grow
GROWTH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Report:
    outcomes: Sequence[Outcome]
    memory: Sequence[tuple[float, int]]  # seconds, bytes
    images_left: float  # in flight in Triton after the end

    @property
    def refusal_p99_s(self) -> float:
        refused = [outcome.seconds for outcome in self.outcomes if outcome.ending == "refused"]
        return float(np.percentile(refused, 99)) if refused else 0.0

    @property
    def growth_bytes(self) -> int:
        """From the median of the first half of what is looked at to that of the second."""
        settled = [size for _, size in self.memory[int(len(self.memory) * SETTLING_SHARE) :]]
        if len(settled) < 2:
            return 0
        middle = len(settled) // 2
        return int(np.median(settled[middle:]) - np.median(settled[:middle]))

    def broken(self) -> list[str]:
        """Promises that did not hold, with what happened instead."""
        found = [
            f"{count} times {behaviour}: {ending}"
            for (behaviour, ending), count in sorted(self._counts().items())
            if ending not in EXPECTED
        ]
        if not any(outcome.ending == "right" for outcome in self.outcomes):
            found.append("nothing was answered")
        if self.refusal_p99_s > REFUSED_WITHIN_S:
            found.append(f"p99 of refusals is {self.refusal_p99_s:.3f} s, over {REFUSED_WITHIN_S} s")
        if self.growth_bytes > GROWTH_BYTES:
            found.append(f"memory grew by {self.growth_bytes / 2**20:.0f} MiB")
        if self.images_left:
            found.append(f"{self.images_left:.0f} images are still in flight, and nobody waits for them")
        return found

    def table(self) -> str:
        lines = ["| what a client did | how it ended | requests | p50 | p99 |", "| --- | --- | --- | --- | --- |"]
        for (behaviour, ending), count in sorted(self._counts().items()):
            took = [each.seconds for each in self.outcomes if (each.behaviour, each.ending) == (behaviour, ending)]
            p50, p99 = np.percentile(took, (50, 99))
            lines.append(f"| {behaviour} | {ending} | {count} | {p50:.3f} s | {p99:.3f} s |")
        lines += [
            "",
            f"refusals: p99 {1000 * self.refusal_p99_s:.0f} ms",
            f"images left in flight: {self.images_left:.0f}",
        ]
        lines += [
            f"memory after {seconds:.0f} s: {size / 2**20:.0f} MiB"
            for seconds, size in self.memory[:: max(1, len(self.memory) // 10)]
        ]
        return "\n".join(lines)

    def _counts(self) -> Counter[tuple[str, str]]:
        return Counter((outcome.behaviour, outcome.ending) for outcome in self.outcomes)
