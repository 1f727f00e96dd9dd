"""One real tritonserver over a tiny checkpoint for all serving tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build.repository import render_repository
from qwen_image.checkpoint import open_checkpoint
from qwen_image.serving.tritonserver import Ports, TritonServer


@pytest.fixture(scope="session")
def server(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    folder = tmp_path_factory.mktemp("server")
    repository = render_repository(open_checkpoint(tiny_checkpoint), folder / "repository")
    with TritonServer(repository, Ports.free(), folder / "tritonserver.log") as running:
        running.wait_until_ready()
        yield running
