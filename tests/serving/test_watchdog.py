"""A server that lost a model's process ends by itself, so that it is started again; its callers get an error."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.serving.tritonserver import Ports, TritonServer
from tests.serving.processes import stub_of
from tests.serving.raw import ask, metrics, under_way

LONG = {"height": 512, "width": 512, "num_inference_steps": 200, "outputs": ("latents",)}
SOON_S = 120  # on any machine; without the watchdog it would be never


@pytest.fixture
def start(tiny_checkpoint, tmp_path):
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


def test_when_the_sampler_dies_its_caller_gets_an_error_and_the_server_ends(start):
    server = start()
    with ThreadPoolExecutor() as pool:
        waiting = under_way(pool, server, **LONG)
        stub_of(server, "sampler").kill()
        with pytest.raises(InferenceServerException):
            waiting.result(SOON_S)
    assert server.process.wait(SOON_S) == -signal.SIGKILL
    assert "model process died: sampler (pid" in server.log_tail()


def test_images_and_the_server_survive_one_of_two_dits_and_the_server_ends_without_its_only_decoder(start):
    server = start(dit_instances=2)
    # Each call asks the dead process first, and a second is lost: few and long steps.
    long = {"height": 1024, "width": 1024, "num_inference_steps": 14, "seed": 3, "outputs": ("latents",)}
    undisturbed = ask(server, "a star", **long)["latents"]
    dit, decoder = stub_of(server, "dit"), stub_of(server, "vae_decoder")
    with ThreadPoolExecutor() as pool:
        running = under_way(pool, server, **long)
        dit.kill()
        assert np.abs(running.result(SOON_S)["latents"] - undisturbed).max() < 1e-4
    assert metrics(server)['qwen_image_failed_steps_total{model="sampler"}'] >= 1
    wait_for_line(server, "another process of its model goes on")
    assert server.is_ready()
    decoder.kill()
    server.process.wait(SOON_S)
    assert "model process died: vae_decoder (pid" in server.log_tail()


def wait_for_line(server, words: str) -> None:
    while words not in server.log_path.read_text():
        assert server.process.poll() is None
        time.sleep(0.05)
