"""What the operating system says of a server's processes."""

from __future__ import annotations

from pathlib import Path

import psutil


def stub_of(server, model: str) -> psutil.Process:
    """The process of one Python model, the first of several."""
    return stubs_of(server, model)[0]


def stubs_of(server, model: str) -> list[psutil.Process]:
    """All processes of one Python model: a stub is given the path of model.py."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    found = [child for child in children if any(f"/{model}/1/model.py" in part for part in child.cmdline())]
    if not found:
        raise LookupError(model)
    return found


def resident_bytes(server) -> int:
    """Of the server and all it started."""
    main = psutil.Process(server.process.pid)
    return sum(each.memory_info().rss for each in (main, *main.children(recursive=True)))


def shared_memory_bytes(server) -> int:
    return sum(path.stat().st_blocks * 512 for path in Path("/dev/shm").glob(f"{server.shm_prefix}*"))


def assert_all_ended_in_order(server) -> None:
    """By the log of a server that has ended."""
    log = server.log_path.read_text()
    assert "model process died" not in log  # the watchdog knows an end in order
    assert "Fatal Python error" not in log  # what a process writes that a signal ends
    assert "killed the model processes it left" not in log
