"""The memory of whole process trees, watched while something else runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

import psutil

EVERY_S = 5.0


@dataclass(slots=True)
class MemoryWatch:
    """Samples (seconds since the start, bytes resident) of these processes and all they started."""

    pids: Sequence[int]
    samples: list[tuple[float, int]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        start = time.monotonic()
        while not self._ended.wait(EVERY_S):
            self.samples.append((time.monotonic() - start, sum(map(_resident_bytes, self.pids))))


def _resident_bytes(pid: int) -> int:
    """Of a tree; memory that its processes share is counted once for each. One that has ended has none."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_info().rss
    return total
