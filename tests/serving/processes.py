"""What the operating system says of a server's processes."""

from __future__ import annotations

from pathlib import Path

import psutil


def stub_of(server, model: str) -> psutil.Process:
    """The process of one Python model: its stub is given the path of model.py."""
    for child in psutil.Process(server.process.pid).children(recursive=True):
        if any(f"/{model}/1/model.py" in argument for argument in child.cmdline()):
            return child
    raise LookupError(model)


def resident_bytes(server) -> int:
    """Of the server and all it started."""
    main = psutil.Process(server.process.pid)
    return sum(each.memory_info().rss for each in (main, *main.children(recursive=True)))


def shared_memory_bytes(server) -> int:
    return sum(path.stat().st_blocks * 512 for path in Path("/dev/shm").glob(f"{server.shm_prefix}*"))
