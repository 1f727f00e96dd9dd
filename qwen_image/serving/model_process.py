"""The processes of a server's models: each says that it is warm, and takes that back when it ends in order.

It says so by a file in the folder that this server's processes share; the file's name is all of it, so nobody reads
half of one. A file whose process is gone is left by a process that died. A thread of Python touches it every second,
a heartbeat: it stops if the process is stopped, or stuck in a call that never lets another thread run.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from qwen_image.request.cancellation import sockets_folder

SUFFIX = ".warm"
BEAT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ModelProcess:
    """A process, and the server it belongs to. A later process may be given a pid, but not a start in the past too."""

    model: str
    pid: int
    started: int | None  # as `started_at` says
    server_started: int | None

    @classmethod
    def of(cls, model: str, pid: int, server_pid: int) -> ModelProcess:
        return cls(model, pid, started_at(pid), started_at(server_pid))

    def __str__(self) -> str:
        return f"{self.model} (pid {self.pid})"

    @property
    def is_alive(self) -> bool:
        return started_at(self.pid) == self.started

    @property
    def file_name(self) -> str:
        return "-".join(map(str, astuple(self))) + SUFFIX

    def last_beat(self, folder: Path) -> int | None:
        """When its heart last beat, in nanoseconds of the file system's clock; None if it has ended in order."""
        try:
            return (folder / self.file_name).stat().st_mtime_ns
        except FileNotFoundError:
            return None


def be_watched(model: str, *, beat_every_s: float = BEAT_EVERY_S) -> None:
    """From now on, warm, this process is one that the server can't do without: the watchdog looks whether it lives."""
    process = ModelProcess.of(model, os.getpid(), os.getppid())
    file = sockets_folder() / process.file_name
    file.touch()
    is_ending = threading.Event()

    def beat() -> None:
        while not is_ending.wait(beat_every_s):
            with suppress(FileNotFoundError):  # taken away from outside; the process is watched no more
                os.utime(file)

    heart = threading.Thread(target=beat, name="heartbeat", daemon=True)
    heart.start()

    def end_in_order() -> None:
        if os.getpid() == process.pid:  # not a child that inherited this
            is_ending.set()
            heart.join()
            file.unlink(missing_ok=True)

    atexit.register(end_in_order)


def watched_processes(folder: Path, server_started: int | None) -> set[ModelProcess]:
    """Those of this server: a container's folder may hold files of the one before, which had the same pid."""
    found = (path.name.removesuffix(SUFFIX).split("-") for path in folder.glob(f"*{SUFFIX}"))
    return {
        ModelProcess(model, int(pid), int(started), server_started)
        for model, pid, started, server in found
        if server == str(server_started)
    }


def started_at(pid: int) -> int | None:
    """When a living process began, in the kernel's ticks since the machine's start; None if it is dead.

    Triton 2.51 leaves a dead stub as a zombie; newer ones take it away when they are asked whether they are ready.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] in "ZX" else int(after_name[19])
