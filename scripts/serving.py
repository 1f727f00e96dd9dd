"""What `serve` and `demo` share: a repository rendered for a checkpoint, and a server over it with visible progress."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from build.repository import render_repository
from qwen_image.checkpoint import open_checkpoint, resolve_checkpoint
from qwen_image.serving.tritonserver import Ports, TritonServer

ROOT = Path(__file__).resolve().parents[1]
DEMO_CHECKPOINT = ROOT / "demo" / "checkpoint"


def checkpoint_folder(name: str | None, revision: str | None) -> Path:
    """The checkpoint that was named; else the demo's."""
    return DEMO_CHECKPOINT if name is None else resolve_checkpoint(name, revision)


@contextlib.contextmanager
def running_server(checkpoint: Path, ports: Ports, host: str = "127.0.0.1") -> Iterator[TritonServer]:
    """A ready server over a repository rendered for this run; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="qwen_image_") as folder:
        repository = render_repository(open_checkpoint(checkpoint), Path(folder) / "repository")
        log = Path(folder) / "tritonserver.log"
        with TritonServer(repository, ports, log, host=host) as server:
            show(f"starting tritonserver over {checkpoint} (log: {log})\n")
            seconds = server.wait_until_ready(progress=lambda waited: show(f"\r  loading models: {waited:.0f} s"))
            show(f"\r  ready after {seconds:.1f} s   \n")
            yield server


def show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
