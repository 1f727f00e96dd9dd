"""The commands of the README, as a newcomer runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

from scripts.serve import main as serve
from tests.processes import run_process
from tests.servers import said_when_ready

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_demo_turns_a_prompt_into_a_png(tiny_checkpoint, tmp_path):
    command = [ROOT / "scripts" / "demo", "a red circle", "--seed", "3", "--checkpoint", tiny_checkpoint]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["a-red-circle-seed3.png"]
    assert "ready after" in done.stderr
    with Image.open(tmp_path / "a-red-circle-seed3.png") as image:
        assert image.size == (128, 128)
        recipe = json.loads(image.text["qwen_image_recipe"])
    assert (recipe["seed"], recipe["negative_prompt"], recipe["true_cfg_scale"]) == (3, " ", 4)


def test_demo_says_what_is_wrong_with_a_checkpoint(tmp_path):
    command = [ROOT / "scripts" / "demo", "a star", "--checkpoint", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "is no diffusers checkpoint: it has no model_index.json" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_how_to_call_it_and_stops_cleanly(tiny_checkpoint, tmp_path, how):
    command = [ROOT / "scripts" / "serve", "--checkpoint", tiny_checkpoint, "--http-port", "0"]
    with run_process(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        said = said_when_ready(serving)
        url = re.search(r"http://\S+/v2/models/qwen_image\b", said)[0]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert {each["name"] for each in json.load(answer)["inputs"]} >= {"prompt", "seed"}
        if how is signal.SIGINT:
            run_as_printed(said, tmp_path)
        os.kill(serving.pid, how)
        assert serving.wait(60) == 0
        errors = serving.stderr.read()
        assert "stopping: images in flight are finished first" in errors
        log = Path(re.search(r"log: (\S+)\)", errors)[1])
        assert not log.parent.exists()


def run_as_printed(said: str, folder: Path) -> None:
    """Each command in a shell that knows nothing of the environment."""
    printed = re.findall(r"^(?:Command line|curl|tritonclient| +) +(\S.*/.*)$", said, re.MULTILINE)
    assert len(printed) == 4
    for command in printed:
        (folder / "picture.png").unlink(missing_ok=True)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)


def test_serve_names_every_taken_port_before_anything_is_loaded(capsys):
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        grpc, gateway = (str(each.getsockname()[1]) for each in (one, other))
        assert serve(["--gateway", "--grpc-port", grpc, "--gateway-port", gateway, "--checkpoint", "/nowhere"]) == 1
    said = capsys.readouterr().err
    assert f"--grpc-port {grpc}: 127.0.0.1:{grpc} is taken by" in said
    assert f"--gateway-port {gateway}: 127.0.0.1:{gateway} is taken by" in said
    assert "/nowhere" not in said


@pytest.mark.slow
def test_serve_gives_up_after_the_time_that_was_set_and_keeps_the_log(tiny_checkpoint, capsys):
    assert serve(["--checkpoint", str(tiny_checkpoint), "--http-port", "0", "--start-timeout-s", "1"]) == 1
    said = capsys.readouterr().err
    assert "tritonserver was not ready after 1 s" in said
    assert re.search(r"\d s, loading .*text_encoder", said)
    folder = Path(re.search(r"the logs are in (\S+)", said)[1])
    assert [path.name for path in folder.iterdir()] == ["tritonserver.log"]
    shutil.rmtree(folder)
