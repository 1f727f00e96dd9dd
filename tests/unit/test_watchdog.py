"""The watchdog, over processes that are a server's and its models' for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from qwen_image.serving.model_process import ModelProcess, started_at, watched_processes
from qwen_image.serving.watchdog import Watchdog

DEAF = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
MARKED = "from qwen_image.serving.model_process import be_watched; be_watched('dit'); "
BEATING = """
import ctypes, sys
from qwen_image.serving.model_process import be_watched
be_watched("dit", beat_every_s=0.05)
print(flush=True)
sys.stdin.readline()
ctypes.PyDLL(None).sleep(600)
"""
SOON_S = 60


@pytest.fixture
def start():
    """Starts a process that waits to be killed."""
    started = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command or ("sleep", "600"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def watch(tmp_path):
    """Starts a watchdog over models' processes; it looks often and waits for little."""
    watchdogs = []

    def watch(server, models, hangs_after_s=3600.0) -> Watchdog:
        for model, process in models:
            (tmp_path / ModelProcess.of(model, process.pid, server.pid).file_name).touch()
        options = {"look_every_s": 0.01, "kill_after_s": 0.2, "hangs_after_s": hangs_after_s}
        watchdogs.append(Watchdog(tmp_path, server.pid, **options))
        return watchdogs[-1]

    yield watch
    for watchdog in watchdogs:
        watchdog.close()


def test_a_server_that_lost_a_model_is_ended(start, watch, caplog):
    server, dit, sampler = start(), start(), start()
    watch(server, [("dit", dit), ("sampler", sampler)])
    sampler.kill()
    assert server.wait(SOON_S) == -signal.SIGTERM
    assert f"model process died: sampler (pid {sampler.pid}); Triton does not start it again" in caplog.text


def test_a_server_that_waits_for_the_dead_is_killed(start, watch):
    server, sampler = start(sys.executable, "-c", DEAF), start()
    server.stdout.readline()
    watch(server, [("sampler", sampler)])
    sampler.kill()
    assert server.wait(SOON_S) == -signal.SIGKILL


@pytest.mark.parametrize("model", ["dit", "validator"])
def test_a_second_instance_saves_no_model_since_triton_goes_on_asking_the_first(start, watch, model):
    server, instance, other_instance = start(), start(), start()
    watch(server, [(model, instance), (model, other_instance)])
    instance.kill()
    assert server.wait(SOON_S) == -signal.SIGTERM


def stop(process) -> None:
    process.send_signal(signal.SIGSTOP)


def take_the_interpreter(process) -> None:
    """By a call that lets no other thread of Python run."""
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("hang", [stop, take_the_interpreter])
def test_a_server_whose_model_hangs_is_ended(start, watch, tmp_path, monkeypatch, caplog, hang):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server, dit = start(), start(sys.executable, "-c", BEATING)
    assert dit.stdout.readline()
    (own,) = tmp_path.glob("*/dit-*.warm")
    process = ModelProcess.of("dit", dit.pid, server.pid)
    (tmp_path / process.file_name).hardlink_to(own)  # as if this server were its parent
    first = process.last_beat(tmp_path)
    while process.last_beat(tmp_path) == first:
        assert dit.poll() is None
    watch(server, [], hangs_after_s=1.0)
    hang(dit)
    assert server.wait(SOON_S) == -signal.SIGTERM
    assert f"model process hangs: {process}; Triton does not start it again" in caplog.text


def test_a_process_that_takes_its_file_back_has_ended_in_order(start, watch, tmp_path):
    server, dit, sampler = start(), start(), start()
    watch(server, [("dit", dit), ("sampler", sampler)])
    (tmp_path / ModelProcess.of("dit", dit.pid, server.pid).file_name).unlink()
    dit.kill()
    sampler.kill()
    assert server.wait(SOON_S) == -signal.SIGTERM


def test_a_closed_watchdog_ends_nothing(start, watch):
    server, sampler = start(), start()
    watch(server, [("sampler", sampler)]).close()
    sampler.kill()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.2)


def test_files_of_an_earlier_server_of_the_same_pid_are_passed_over(tmp_path):
    (tmp_path / ModelProcess("dit", 4711, 1, server_started=2).file_name).touch()
    assert watched_processes(tmp_path, server_started=3) == set()
    assert watched_processes(tmp_path, server_started=2) == {ModelProcess("dit", 4711, 1, 2)}


def test_a_zombie_and_a_pid_that_was_given_away_are_dead(start):
    process = start()
    living = ModelProcess.of("dit", process.pid, os.getpid())
    assert living.is_alive
    assert not ModelProcess("dit", process.pid, living.started - 1, living.server_started).is_alive
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not living.is_alive
    assert started_at(process.pid) is None


@pytest.mark.parametrize(
    ("end", "files"), [("", 0), ("import os; os._exit(1)", 1), ("import os; os.kill(os.getpid(), 9)", 1)]
)
def test_only_a_process_that_dies_leaves_its_file(tmp_path, end, files):
    subprocess.run([sys.executable, "-c", MARKED + end], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    found = list(tmp_path.glob("*/dit-*.warm"))
    assert len(found) == files
    assert all(
        not process.is_alive for path in found for process in watched_processes(path.parent, started_at(os.getpid()))
    )
