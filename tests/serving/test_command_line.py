"""The command `qwen-image` and the raw examples, run as a user runs them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from qwen_image_client import Client, load_recipe
from scripts.bench_perf_analyzer import perf_analyzer
from tests.pictures import levels_apart, picture, png, right_half
from tests.processes import run_process
from tests.serving.raw import metrics, statistics

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "clients" / "examples"
COMMAND = [sys.executable, "-m", "qwen_image_client"]
QUICK = ["--height", "64", "--width", "96", "--num-inference-steps", "3"]
LONG = ["--height", "768", "--width", "768", "--num-inference-steps", "200"]


def run(*arguments, cwd):
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def photos(tmp_path):
    """A folder with the pictures that the documents name."""
    for name in ("photo.jpg", "cat.jpg"):
        picture(96, 64).save(tmp_path / name)
    Image.new("RGB", (40, 60), "red").save(tmp_path / "hat.jpg")
    (tmp_path / "mask.png").write_bytes(png(right_half(96, 64)))
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "demo.png", tmp_path / "docs")
    return tmp_path


@pytest.fixture(params=["grpc", "http"])
def url(server, request):
    return f"{request.param}://{server.grpc_url if request.param == 'grpc' else server.http_url}"


def test_paths_go_to_stdout_with_the_seeds_in_the_names(url, tmp_path):
    done = run("generate", "A red circle!", *QUICK, "--seed", "42", "--num-images", "2", "--url", url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["a-red-circle-seed42.png", "a-red-circle-seed43.png"]
    assert [load_recipe(tmp_path / name).seed for name in done.stdout.split()] == [42, 43]


def test_a_saved_image_runs_again_and_replaces_nothing(url, tmp_path):
    first = run("generate", "a red circle", *QUICK, "--output", "one.png", "--url", url, cwd=tmp_path)
    again = run("generate", "--from-image", "one.png", "--output", "one.png", "--url", url, cwd=tmp_path)
    assert (first.stdout, again.stdout) == ("one.png\n", "one-2.png\n")
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "one-2.png") as two:
        assert levels_apart(one, two) <= 1


def test_a_value_out_of_range_exits_with_2(url, tmp_path):
    done = run("generate", "a", "--height", "17", "--url", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: height=17 must be a multiple of 16" in done.stderr


def test_ready_and_cancel(url, tmp_path):
    assert run("ready", "--url", url, "--wait", "5", cwd=tmp_path).returncode == 0
    done = run("cancel", "nobody", "--url", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n")


@pytest.mark.parametrize("arguments", [[], ["--no-preview"]])
def test_a_terminal_sees_the_steps_unless_it_does_not_want_to(server, tmp_path, arguments):
    command = [*COMMAND, "generate", "a", *QUICK, "--output", "a.png", "--url", server.grpc_url, *arguments]
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with run_process(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = read_all(screen)
        assert process.wait(60) == 0
    assert ("3/3" in shown) is (arguments == [])
    assert (tmp_path / "a.png").is_file()


def read_all(screen):
    shown = b""
    while True:
        try:
            shown += os.read(screen, 4096)
        except OSError:  # the other end is closed
            os.close(screen)
            return shown.decode()


def cancelled_images(server):
    return sum(value for name, value in metrics(server).items() if name.startswith("qwen_image_cancelled_images_total"))


def rises_by(images, count, server, before):
    """Whether that many more images are counted soon: an image ends at its next step."""
    deadline = time.monotonic() + 20
    while count(server) < before + images and time.monotonic() < deadline:
        pass
    return count(server) == before + images


def started(server, command, cwd):
    """A long `generate` whose steps are running, and its request id."""
    steps = statistics(server, "dit").execution_count
    process = subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)
    request_id = re.fullmatch(r"request (\w+)\n", process.stderr.readline())[1]
    while statistics(server, "dit").execution_count < steps + 3:
        time.sleep(0.02)
    return process, request_id


def test_ctrl_c_ends_the_work_and_exits_with_130(server, url, tmp_path):
    before = cancelled_images(server)
    process, _ = started(server, [*COMMAND, "generate", "a", *LONG, "--num-images", "2", "--url", url], tmp_path)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; ended on the server: 2 images" in said
    assert rises_by(2, cancelled_images, server, before)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_stream_on_a_terminal(server, tmp_path):
    before = cancelled_images(server)
    screen, terminal = pty.openpty()
    command = [*COMMAND, "generate", "a", *LONG, "--url", server.grpc_url]
    with run_process(command, cwd=tmp_path, stderr=terminal) as process:
        os.close(terminal)
        steps = statistics(server, "dit").execution_count
        while statistics(server, "dit").execution_count < steps + 5:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        shown = read_all(screen)
        assert process.wait(30) == 130
    assert "ended on the server: 1 image" in shown
    assert rises_by(1, cancelled_images, server, before)


def test_cancel_from_another_terminal_ends_generate_with_1(server, url, tmp_path):
    process, request_id = started(server, [*COMMAND, "generate", "a", *LONG, "--url", url], tmp_path)
    assert run("cancel", request_id, "--url", url, cwd=tmp_path).stdout == "1\n"
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "was cancelled" in said


def test_a_timeout_exits_with_1_after_ending_the_work(server, url, tmp_path):
    before = cancelled_images(server)
    done = run("generate", "a", *LONG, "--timeout", "1", "--url", url, cwd=tmp_path)
    assert done.returncode == 1
    assert "ended on the server: 1 image" in done.stderr
    assert rises_by(1, cancelled_images, server, before)


def run_in(command, folder, **environment):
    """The command's result, with the programs of this environment on its path; it must succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("command", "protocol"),
    [
        pytest.param(
            ["sh", str(EXAMPLES / "curl.sh")],
            "http",
            marks=pytest.mark.skipif(shutil.which("curl") is None, reason="no curl: apt-get install curl"),
        ),
        ([sys.executable, str(EXAMPLES / "tritonclient_http.py")], "http"),
        ([sys.executable, str(EXAMPLES / "tritonclient_grpc.py")], "grpc"),
        ([sys.executable, str(EXAMPLES / "stream.py")], "grpc"),
    ],
)
def test_the_raw_examples_make_the_image_that_the_client_makes(server, tmp_path, command, protocol):
    url = server.grpc_url if protocol == "grpc" else server.http_url
    done = run_in([*command, url, "circle.png"], tmp_path)
    seed = int(re.search(r"seed (-?\d+)", done.stdout)[1]) if "seed" in done.stdout else 42
    with Client(server.grpc_url) as client:
        (same,) = client.generate(
            "a red circle on a white wall", height=128, width=128, num_inference_steps=4, seed=seed
        )
    with Image.open(tmp_path / "circle.png") as image:
        assert levels_apart(image, same.image) <= 1


def test_the_python_in_the_clients_readme_runs(server, tmp_path):
    readme = (EXAMPLES.parent / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    script = block.replace("localhost:8001", server.grpc_url)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "30 of 30"
    assert {path.name for path in tmp_path.iterdir()} == {"circle-42.png", "circle-43.png", "circle.png"}


def close_to(path, image):
    """Whether the file holds the image, but for the last bit of a byte."""
    with Image.open(path) as found:
        return levels_apart(found, image.image) <= 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl: apt-get install curl")
def test_the_curl_example_starts_from_the_picture_that_the_client_starts_from(server, photos):
    done = run_in(["sh", str(EXAMPLES / "curl_image.sh"), server.http_url, "photo.jpg", "result.png"], photos)
    seed = int(re.search(r"seed (\d+)", done.stdout)[1])
    with Client(server.grpc_url) as client:
        (same,) = client.generate(
            "a red circle on a white wall", image=photos / "photo.jpg", strength=0.5, num_inference_steps=8, seed=seed
        )
    assert close_to(photos / "result.png", same)


def test_the_edit_example_makes_the_edit_that_the_client_makes(edit_server, photos):
    command = [sys.executable, str(EXAMPLES / "edit.py"), edit_server.grpc_url, "result.png", "cat.jpg", "hat.jpg"]
    run_in(command, photos)
    with Client(edit_server.grpc_url) as client:
        pictures = [photos / "cat.jpg", photos / "hat.jpg"]
        (same,) = client.edit("make the background blue", pictures, num_inference_steps=4, seed=42)
    assert close_to(photos / "result.png", same)


@pytest.mark.parametrize(("model", "rows"), [("qwen_image", "image_to_image.json"), ("qwen_image_edit", "edit.json")])
def test_perf_analyzer_sends_the_pictures_that_we_ship(server, edit_server, tmp_path, model, rows):
    target = server if model == "qwen_image" else edit_server
    before = statistics(target, model).inference_stats
    run_in(
        [
            *perf_analyzer(),
            *("-m", model, "-u", target.grpc_url, "-i", "grpc"),
            f"--input-data={ROOT / 'clients' / 'perf_analyzer' / rows}",
            *("--concurrency-range=2", "--request-count=4"),
        ],
        tmp_path,
    )
    after = statistics(target, model).inference_stats
    assert after.success.count - before.success.count == 4
    assert after.fail.count == before.fail.count


def test_an_inpainting_is_saved_with_its_mask_and_runs_again(url, photos):
    pictures = ["--image", "photo.jpg", "--mask", "mask.png"]
    first = run(
        *("generate", "a", *pictures, *QUICK, "--strength", "0.9", "--output", "one.png", "--save-mask", "kept.png"),
        *("--url", url),
        cwd=photos,
    )
    assert (first.returncode, first.stdout) == (0, "one.png\nkept.png\n"), first.stderr
    with Image.open(photos / "kept.png") as mask:
        assert np.array_equal(np.asarray(mask), right_half(96, 64))
    again = run("generate", "--from-image", "one.png", *pictures, "--output", "two.png", "--url", url, cwd=photos)
    assert again.returncode == 0, again.stderr
    with Image.open(photos / "one.png") as one, Image.open(photos / "two.png") as two:
        assert levels_apart(one, two) <= 1
    assert load_recipe(photos / "two.png").strength == 0.9


def test_a_file_that_is_no_picture_is_named(url, photos):
    (photos / "notes.txt").write_text("no picture")
    done = run("generate", "a", "--image", "notes.txt", *QUICK, "--url", url, cwd=photos)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: notes.txt is no picture that is known here" in done.stderr


def test_an_edit_asked_of_a_server_that_paints_from_text_says_so(url, photos):
    done = run("edit", "a", "--image", "photo.jpg", *QUICK, "--url", url, cwd=photos)
    assert (done.returncode, done.stdout) == (2, "")
    assert "its checkpoint is no edit checkpoint" in done.stderr


def test_a_terminal_sees_the_steps_of_an_edit(edit_server, photos):
    command = [*COMMAND, "edit", "a", "--image", "cat.jpg", "--image", "hat.jpg", *QUICK, "--output", "a.png"]
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command += ["--url", edit_server.grpc_url]
    with run_process(command, cwd=photos, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = read_all(screen)
        assert process.wait(60) == 0
    assert "3/3" in shown
    recipe = load_recipe(photos / "a.png")
    assert (recipe.task, len(recipe.image_sha256)) == ("edit", 2)


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / document).read_text(), re.MULTILINE | re.DOTALL)


def test_the_python_of_the_document_on_images_runs(server, edit_server, photos):
    start, edit = blocks("images.md", "python")
    for source, target in ((start, server), (edit, edit_server)):
        run_in([sys.executable, "-c", source.replace("localhost:8001", target.grpc_url)], photos)
    made = {path.name for path in photos.glob("*.png")} - {"mask.png"}
    assert made == {"painting.png", "inpainted.png", "painted-here.png", "blue.png", "cat-with-hat.png"}


@pytest.mark.parametrize("document", ["images.md", "clients.md"])
def test_the_commands_with_pictures_of_the_documents_run(server, edit_server, photos, document):
    lines = [line for block in blocks(document, "sh") for line in block.splitlines() if "--image" in line]
    assert {shlex.split(line)[1] for line in lines} == {"generate", "edit"}
    for line in lines:
        target = edit_server if " edit " in line else server
        done = run_in(shlex.split(line, comments=True), photos, QWEN_IMAGE_URL=target.grpc_url)
        assert all((photos / name).is_file() for name in done.stdout.split())
