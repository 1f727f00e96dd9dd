"""Real tritonservers for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build.repository import render_repository
from qwen_image.checkpoint import open_checkpoint
from qwen_image.serving.tritonserver import Ports, TritonServer


@contextmanager
def serving(checkpoint: Path, folder: Path, *, ports: Ports | None = None, **options: Any) -> Iterator[TritonServer]:
    """A ready server over a checkpoint's folder; what it needs is in `folder`. `options` are render_repository's."""
    repository = render_repository(open_checkpoint(checkpoint), folder / "repository", **options)
    with TritonServer(repository, ports or Ports.free(), folder / "tritonserver.log", start_timeout_s=300) as running:
        running.wait_until_ready()
        yield running
