"""Real tritonservers for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build.repository import render_repository
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image.request.cancellation import sockets_folder
from qwen_image.request.grants import Grants

UNLOADING_S = 120  # its processes are nice: on a busy machine it takes them a while to end in order


@contextmanager
def serving(
    checkpoint: Path, folder: Path, *, ports: Ports | None = None, exit_timeout_s: int = 30, **options: Any
) -> Iterator[TritonServer]:
    """A ready server over a checkpoint's folder; what it needs is in `folder`. `options` are render_repository's."""
    repository = render_repository(open_checkpoint(checkpoint), folder / "repository", **options)
    ports, log = ports or Ports.free(), folder / "tritonserver.log"
    with TritonServer(repository, ports, log, start_timeout_s=300, exit_timeout_s=exit_timeout_s) as running:
        running.wait_until_ready()
        yield running


def unlimited_grant(server: TritonServer) -> bytes:
    """With it a request to a model behind the ensembles is taken as that of another model of the server."""
    assert server.process is not None
    return Grants.in_folder(sockets_folder(server.process.pid)).unlimited


def said_when_ready(serving: subprocess.Popen[str]) -> str:
    """What `scripts/serve` prints once it is ready. AssertionError with its errors if it ends instead."""
    said = []
    for line in serving.stdout or ():
        said.append(line)
        if line == "Ctrl-C stops the server.\n":
            return "".join(said)
    raise AssertionError(serving.stderr and serving.stderr.read())
