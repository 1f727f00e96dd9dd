"""What `serve` and `demo` share: a repository rendered for a checkpoint, and a server over it with visible progress."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import LoadFormat, open_checkpoint, resolve_checkpoint
from qwen_image.serving.tritonserver import Ports, TritonServer

ROOT = Path(__file__).resolve().parents[1]
DEMO_CHECKPOINT = ROOT / "demo" / "checkpoint"


def checkpoint_folder(name: str | None, revision: str | None, load_format: LoadFormat = LoadFormat.AUTO) -> Path:
    """The checkpoint that was named; else the demo's."""
    if name is None:
        return DEMO_CHECKPOINT
    return resolve_checkpoint(name, revision, needs_weights=load_format.reads_files)


@contextlib.contextmanager
def running_server(
    checkpoint: Path, ports: Ports, host: str = "127.0.0.1", load_format: LoadFormat = LoadFormat.AUTO
) -> Iterator[TritonServer]:
    """A ready server over a repository rendered for this run; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="qwen_image_") as folder:
        opened = open_checkpoint(checkpoint, needs_weights=load_format.reads_files)
        settings = Settings(load_format=load_format)
        repository = render_repository(opened, Path(folder) / "repository", settings=settings)
        log = Path(folder) / "tritonserver.log"
        with TritonServer(repository, ports, log, host=host) as server:
            show(f"starting tritonserver over {checkpoint} (log: {log})\n")
            seconds = server.wait_until_ready(progress=lambda waited: show(f"\r  loading models: {waited:.0f} s"))
            show(f"\r  ready after {seconds:.1f} s   \n")
            yield server


def show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
