"""Processes that tests start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def run_process(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process. A check that fails in the block ends it: Popen alone would wait for it, for ever."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
