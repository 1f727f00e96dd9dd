"""The gateway as it is started: beside the server by `scripts/serve`, and by itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import httpx
import openai
import pytest
from openai import OpenAI

from qwen_image_gateway import GatewaySettings, create_app
from qwen_image_gateway.settings import SettingsError
from tests.gateway.running import gateway_over
from tests.gateway.samplers import of_samplers, wait_until_idle
from tests.processes import run_process
from tests.servers import said_when_ready

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_serve_starts_a_gateway_beside_the_server_and_ends_both(tiny_checkpoint, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    command = [sys.executable, "-m", "scripts.serve", "--checkpoint", tiny_checkpoint, "--http-port", "0", "--gateway"]
    command += ["--host", "127.0.0.2", "--api-keys", keys, "--max-side", "256"]
    command += ["--served-model-name", "gpt-image-1", "--served-model-name", "dall-e-3"]
    with run_process(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        said = said_when_ready(serving)
        url = re.search(r'base_url="(\S+)"', said)[1]
        with OpenAI(base_url=url, api_key="secret") as client:
            for name, kind in (("gpt-image-1", "b64_json"), ("dall-e-3", "url")):
                answer = client.images.generate(
                    prompt="a star", model=name, size="64x64", extra_body={"num_inference_steps": 1}
                )
                assert getattr(answer.data[0], kind)
            with pytest.raises(openai.UnprocessableEntityError, match="between 64 and 256"):
                client.images.generate(prompt="a star", size="512x512")
        assert httpx.get(f"{url}/models").status_code == 401
        metrics = re.search(r"Metrics +(http://127\.0\.0\.1:\S+)", said)[1]
        assert httpx.get(metrics).status_code == 200
        with pytest.raises(httpx.ConnectError):  # the gateway's address is not Triton's
            httpx.get(metrics.replace("127.0.0.1", "127.0.0.2"))
        os.kill(serving.pid, signal.SIGINT)
        assert serving.wait(60) == 0
        assert "stopping: images in flight are finished first" in serving.stderr.read()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/models")


@pytest.mark.parametrize("command", [["qwen-image-gateway"], [sys.executable, "-m", "qwen_image_gateway"]])
def test_the_command_line_tells_every_setting_with_its_default(command):
    program = command[0] if len(command) > 1 else Path(sysconfig.get_path("scripts")) / command[0]
    if not Path(program).exists():
        pytest.skip("the environment was set up before the command existed: run scripts/setup")
    said = subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=True).stdout
    for name in ("--url", "--api-keys", "--max-requests", "--cors-origin", "--otlp-endpoint", "--page"):
        assert name in said
    assert f"default: {GatewaySettings().max_upload_bytes}" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--api-keys", "/nowhere"], "can't be read"),
        (["--url", "http://localhost:8000"], "must be Triton's gRPC address"),
        (["--max-requests", "0"], "max_requests=0 must be more than 0"),
        (["--retry-after-s", "-1"], "retry_after_s=-1 must not be less than 0"),
        (["--page", "--api-keys", "/nowhere"], "knows no keys"),
    ],
)
def test_settings_that_can_not_be_used_are_told_at_the_start(options, words):
    command = [sys.executable, "-m", "qwen_image_gateway", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_a_gateway_that_stops_ends_in_triton_what_it_could_not_finish(server, tmp_path):
    cancelled = of_samplers(server, "qwen_image_cancelled_images_total")
    long = {"prompt": "a star", "size": "512x512", "n": 2, "num_inference_steps": 150}
    with gateway_over(server.grpc_url, tmp_path, "--stop-s", "0") as gateway:
        url = f"{gateway.url}/v1/images/generations"
        asking = threading.Thread(target=ask_and_be_refused, args=(url, long))
        asking.start()
        while of_samplers(server, "qwen_image_images_in_flight") < 2:
            time.sleep(0.05)
    asking.join()
    wait_until_idle(server)
    assert of_samplers(server, "qwen_image_cancelled_images_total") == cancelled + 2


def ask_and_be_refused(url, body):
    with contextlib.suppress(httpx.TransportError):
        assert httpx.post(url, json=body, timeout=120).status_code >= 500


def test_the_page_without_gradio_names_the_command_that_installs_it(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in ("gradio", "qwen_image_page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without("gradio"), *sys.meta_path])
    with pytest.raises(SettingsError, match=r"pip install '\.\[gateway,page\]'"):
        create_app(GatewaySettings(page=True))


class _Without:
    """Finds no package of one name, as if it weren't installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_with_the_page_the_api_stays_as_it_is(server, tmp_path):
    with gateway_over(server.grpc_url, tmp_path, "--page") as gateway:
        page = httpx.get(f"{gateway.url}/", follow_redirects=True)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        assert page.url.path.startswith("/page")
        assert httpx.get(f"{gateway.url}/v1/models").json()["data"][0]["id"] == "qwen_image"
        assert httpx.get(f"{gateway.url}/v1/nothing").json()["error"]["code"] == "not_found"
