"""A server that lost a model's process ends by itself, so that it is started again; none of it stays behind."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from tritonclient.utils import InferenceServerException

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image.serving.model_process import started_at
from tests.serving.processes import stub_of, stubs_of
from tests.serving.raw import ask, stream, under_way

LONG = {"height": 512, "width": 512, "num_inference_steps": 200, "outputs": ("latents",)}
SOON_S = 120  # on any machine; without the watchdog it would be never


@pytest.fixture
def start(slow, tiny_checkpoint, tmp_path):
    """Starts a server with settings of its own. It would wait for ever for what is in flight."""
    started = []

    def start(**settings) -> TritonServer:
        repository = render_repository(
            open_checkpoint(tiny_checkpoint), tmp_path / "repository", settings=Settings(**settings)
        )
        server = TritonServer(repository, Ports.free(), tmp_path / "tritonserver.log", exit_timeout_s=3600)
        started.append(server)
        server.start()
        server.wait_until_ready()
        return server

    yield start
    for server in started:
        server.process.kill()
        server.stop()


def test_when_the_sampler_dies_its_callers_get_an_error_and_the_server_ends_with_all_its_processes(start):
    server = start()
    processes = processes_of(server)
    with ThreadPoolExecutor() as pool:
        waiting = under_way(pool, server, **LONG)
        previews = running_stream(server)
        stub_of(server, "sampler").kill()
        with pytest.raises(InferenceServerException):
            waiting.result(SOON_S)
        with pytest.raises(InferenceServerException):
            list(previews)
    assert server.process.wait(SOON_S) == -signal.SIGKILL
    assert "model process died: sampler (pid" in server.log_tail()
    assert_nothing_is_left(server, processes)


def test_a_server_that_is_killed_while_it_streams_leaves_nothing_behind_and_imports_nothing_from_where_it_was_started(
    start, tmp_path, monkeypatch
):
    (tmp_path / "qwen_image").mkdir()
    (tmp_path / "qwen_image" / "__init__.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    server = start()
    processes = processes_of(server)
    previews = running_stream(server)
    server.process.kill()
    with pytest.raises(InferenceServerException):
        list(previews)
    server.process.wait()
    assert_nothing_is_left(server, processes)


def test_when_one_of_two_dits_hangs_callers_get_their_image_or_unavailable_and_the_server_ends(start, at_once):
    server = start(dit_instances=2, watchdog_hangs_after_s=10.0, niceness=0)
    small = {"height": 128, "width": 128, "num_inference_steps": 4, "seed": 3, "outputs": ("latents",)}
    undisturbed = ask(server, "a star", **small)["latents"]
    _, hanging = stubs_of(server, "dit")

    def one(_: int) -> bool:
        """Whether the image was made."""
        try:
            return bool(np.abs(ask(server, "a star", **small)["latents"] - undisturbed).max() < 1e-4)
        except InferenceServerException as error:
            if error.status() != "StatusCode.UNAVAILABLE":
                raise
            return False

    hanging.suspend()
    try:
        while all(at_once(one, range(8))):
            assert server.process.poll() is None
        server.process.wait(SOON_S)
    finally:
        hanging.kill()
    assert f"model process hangs: dit (pid {hanging.pid})" in server.log_path.read_text()
    assert not server.is_ready()


def running_stream(server):
    """The previews of a long stream, after the first of them."""
    previews = stream(server, "a star", height=256, width=256, num_inference_steps=200)
    next(previews)
    return previews


def processes_of(server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def assert_nothing_is_left(server, processes) -> None:
    """Of a server that has ended: processes, its folder, shared memory; nobody has stopped it."""
    folder = Path(tempfile.gettempdir()) / f"qwen_image-{os.getuid()}-{server.process.pid}"
    deadline = time.monotonic() + SOON_S
    while (living := [each for each in processes if started_at(each.pid)]) or folder.exists():
        assert time.monotonic() < deadline, (living, folder)
        time.sleep(0.05)
    assert list(server.shared_memory_files()) == []
