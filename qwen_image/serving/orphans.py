"""A server's model processes end with it, however it ends, and what they left behind is removed.

Triton's stub notices that its server is gone, but may then wait for ever for Python's lock, which a thread holds that
waits for that server. So the first model process starts a small one in a session of its own: it waits for the server's
end, kills what is left of the processes that have registered, and removes their shared memory and the server's folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from qwen_image.request.cancellation import sockets_folder
from qwen_image.serving.model_process import started_at

SUFFIX = ".process"
LOCK = "orphans.lock"  # held by the process that waits for the server's end
LOOK_EVERY_S = 0.5
GONE_WITHIN_S = 60.0  # a killed process may take a while to give a GPU's memory back
SHARED_MEMORY = Path("/dev/shm")
PACKAGES = Path(__file__).resolve().parents[2]
_waiting: list[subprocess.Popen[bytes]] = []  # kept: one that is thrown away warns that it still runs


def end_with_server() -> None:
    """From now on this model process ends with the server that started it, and its temporary files do.

    One whose server ends meanwhile ends here: nobody may look for it any more.
    """
    region, server_pid = _stub_arguments()
    server_started = started_at(server_pid)
    try:
        if os.getppid() == server_pid:
            _register(sockets_folder(server_pid), region, server_pid, server_started)
    finally:
        if os.getppid() != server_pid:
            os._exit(1)


def _stub_arguments() -> tuple[str, int]:
    """What Triton started this process with: the name of its region under /dev/shm, and the server's pid."""
    arguments = Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")
    return arguments[2], int(arguments[5])


def _register(folder: Path, region: str, server_pid: int, server_started: int | None) -> None:
    """Write down this process, and start the one that waits for the server if there is none.

    What PyTorch compiles stays, in the user's cache: it takes long, and the next server can use it.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{caches}/qwen_image/torchinductor")
    (folder / f"{os.getpid()}-{started_at(os.getpid())}{SUFFIX}").write_text(region)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process of this server was first
            return
        _waiting.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(folder), str(server_pid), str(server_started)],
                env={**os.environ, "PYTHONPATH": str(PACKAGES)},
                cwd="/",
                pass_fds=(lock.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        )


def remove_run(folder: Path) -> list[int]:
    """What a server that has ended left: its living model processes, whose pids are returned, and files."""
    registered = list(folder.glob(f"*{SUFFIX}"))
    processes = [(int(pid), int(started)) for pid, started in (path.stem.split("-") for path in registered)]
    living = [(pid, started) for pid, started in processes if started_at(pid) == started]
    for pid, _ in living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_WITHIN_S
    while any(started_at(pid) == started for pid, started in living) and time.monotonic() < deadline:
        time.sleep(0.02)
    for path in registered:
        with suppress(FileNotFoundError):
            if region := path.read_text():
                (SHARED_MEMORY / region).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return [pid for pid, _ in living]


def left_behind(beside: Path) -> Iterator[Path]:
    """Folders of this user's earlier servers whose own waiting process was killed, too."""
    for folder in beside.parent.glob(f"qwen_image-{os.getuid()}-*"):
        if started_at(int(folder.name.rpartition("-")[2])) is None and folder.is_dir() and not folder.is_symlink():
            with (folder / LOCK).open("a") as lock, suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # in another container a server of that pid may live
                yield folder


def main() -> None:
    folder, server_pid, server_started = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for earlier in left_behind(folder):
        remove_run(earlier)
    while started_at(server_pid) == server_started:
        time.sleep(LOOK_EVERY_S)
    if killed := remove_run(folder):
        sys.stderr.write(f"tritonserver (pid {server_pid}) has ended; killed the model processes it left: {killed}\n")


if __name__ == "__main__":
    main()
