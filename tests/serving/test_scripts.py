"""The commands of the README, as a newcomer runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def test_demo_turns_a_prompt_into_a_png(tiny_checkpoint, tmp_path):
    command = [ROOT / "scripts" / "demo", "a red circle", "--seed", "3", "--checkpoint", tiny_checkpoint]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["a-red-circle-seed3.png"]
    assert "ready after" in done.stderr
    with Image.open(tmp_path / "a-red-circle-seed3.png") as image:
        assert image.size == (128, 128)
        assert json.loads(image.text["qwen_image_recipe"])["seed"] == 3


def test_demo_says_what_is_wrong_with_a_checkpoint(tmp_path):
    command = [ROOT / "scripts" / "demo", "a star", "--checkpoint", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "is no diffusers checkpoint: it has no model_index.json" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_how_to_call_it_and_stops_cleanly(tiny_checkpoint, how):
    command = [ROOT / "scripts" / "serve", "--checkpoint", tiny_checkpoint, "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        said = "".join(iter(serving.stdout.readline, "Ctrl-C stops the server.\n"))
        for tool in ("qwen-image generate", "curl.sh", "tritonclient_grpc.py", "tritonclient_http.py", "/metrics"):
            assert tool in said
        url = re.search(r"http://\S+/v2/models/qwen_image\b", said)[0]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert {each["name"] for each in json.load(answer)["inputs"]} >= {"prompt", "seed"}
        os.kill(serving.pid, how)
        assert serving.wait(60) == 0
        assert "stopping: images in flight are finished first" in serving.stderr.read()
