"""Two queues of a GPU at work side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Beside:
    """A second queue. On a CPU its work is simply done when it comes.

    Tensors that it reads must be held until `join`.
    """

    def __init__(self, device: torch.device) -> None:
        self._queue = torch.cuda.Stream(device) if device.type == "cuda" else None

    @contextmanager
    def started(self) -> Iterator[None]:
        """What is called within comes after all that was called so far, and beside what is called later."""
        if self._queue is None:
            yield
            return
        self._queue.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._queue):
            yield

    def join(self) -> None:
        """What is called later comes after it."""
        if self._queue is not None:
            torch.cuda.current_stream().wait_stream(self._queue)
