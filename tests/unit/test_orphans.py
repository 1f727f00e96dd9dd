"""What is left of a server that has ended: over processes that are its models' for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from qwen_image.serving.model_process import started_at
from qwen_image.serving.orphans import SUFFIX, left_behind, remove_run
from tests.processes import run_process

# The arguments are those of Triton's stub.
MODEL_PROCESS = """
import os, time
from qwen_image.serving.orphans import end_with_server
end_with_server()
print(os.getpid(), os.environ["TMPDIR"], flush=True)
time.sleep(600)
"""
SERVER = """
import os, subprocess, sys
subprocess.run([sys.executable, sys.argv[1], "region", "size", "growth", str(os.getpid())])
"""


@pytest.fixture
def model_process(tmp_path):
    path = tmp_path / "model_process.py"
    path.write_text(MODEL_PROCESS)
    return str(path)


@pytest.fixture
def sleeper():
    process = subprocess.Popen(("sleep", "600"))
    yield process
    process.kill()
    process.wait()


def test_a_model_process_and_its_temporary_files_end_with_a_server_that_is_killed(tmp_path, model_process):
    command = (sys.executable, "-c", SERVER, model_process)
    with run_process(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}) as server:
        pid, temporary = server.stdout.readline().decode().split()
        assert temporary == str(tmp_path / f"qwen_image-{os.getuid()}-{server.pid}" / "tmp")
        server.kill()
        assert server.stdout.read() == b""  # until the model process, which holds the other end, has ended
    while started_at(int(pid)) is not None:  # it closes its files a moment before it is dead
        time.sleep(0.01)


def test_a_model_process_whose_server_ended_before_it_was_ready_to_look_ends_too(tmp_path, model_process):
    ended = subprocess.Popen("true")
    ended.wait()
    command = (sys.executable, model_process, "region", "size", "growth", str(ended.pid))
    assert subprocess.run(command, timeout=60, env={**os.environ, "TMPDIR": str(tmp_path)}).returncode == 1
    assert list(tmp_path.glob("qwen_image-*")) == []


def test_a_process_that_was_given_the_pid_of_a_model_process_is_spared(tmp_path, sleeper):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f"{sleeper.pid}-{started_at(sleeper.pid) - 1}{SUFFIX}").touch()
    assert remove_run(tmp_path / "run") == []
    assert sleeper.poll() is None
    assert not (tmp_path / "run").exists()


def test_folders_of_earlier_servers_are_found_and_those_of_living_ones_are_not(tmp_path):
    ended = subprocess.Popen("true")
    ended.wait()
    earlier, ours = (tmp_path / f"qwen_image-{os.getuid()}-{pid}" for pid in (ended.pid, os.getpid()))
    earlier.mkdir()
    ours.mkdir()
    assert list(left_behind(ours)) == [earlier]
