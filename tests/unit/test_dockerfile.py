"""The production image and its compose file, as far as they can be judged without building them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from qwen_image.launch import restricted_apis, tritonserver
from qwen_image.text.encoder import TextEncoder

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
DOC = ROOT / "docs" / "container.md"
FROM_THE_IMAGE = {"numpy", "torch", "torchvision", "transformers", "triton", "vllm"}


def instructions(keyword: str, text: str | None = None) -> list[str]:
    """The arguments of every instruction of this kind, continued lines joined."""
    lines = [line for line in (text or DOCKERFILE.read_text()).splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return re.findall(rf"^{keyword} (.+)$", joined, re.MULTILINE)


def arguments() -> dict[str, str]:
    return dict(each.split("=", 1) for each in instructions("ARG") if "=" in each)


def final_stage() -> str:
    return DOCKERFILE.read_text().rpartition("\nFROM ")[2]


def copied() -> dict[str, str]:
    """Source in the repository: target in the image."""
    return dict(each.split() for each in instructions("COPY") if not each.startswith("--from"))


def exec_form(keyword: str) -> list[str]:
    found = json.loads(re.search(r"\[.*\]", instructions(keyword)[-1])[0])
    assert all(isinstance(each, str) for each in found)
    return found


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return dict(line.split(";")[0].strip().split("==") for line in lines if "==" in line)


def services() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def mounts(service: str) -> dict[str, dict[str, Any]]:
    return {each["target"]: each for each in services()[service]["volumes"]}


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_hadolint_finds_nothing_with_no_rule_ignored():
    assert not list(ROOT.glob(".hadolint.y*ml"))
    hadolint = Path(sys.executable).parent / "hadolint"
    found = subprocess.run(
        [hadolint, "--disable-ignore-pragma", "--failure-threshold", "style", DOCKERFILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_both_images_are_of_one_exact_release():
    release = arguments()["TRITON_VERSION"]
    assert re.fullmatch(r"\d\d\.\d\d", release)
    images = [each.split(" AS ")[0].replace("${TRITON_VERSION}", release) for each in instructions("FROM")]
    assert images == [f"nvcr.io/nvidia/tritonserver:{release}-{flavour}" for flavour in ("py3", "vllm-python-py3")]


def test_what_is_copied_exists_and_is_let_through():
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    assert copied().keys() == let_through
    for source in copied():
        assert (ROOT / source).exists(), source


def test_the_folders_that_the_code_looks_for_beside_itself_are_copied():
    folders = {PurePosixPath("/opt/qwen-image", target).name for target in copied().values()}
    code = [path for source in ("build", "qwen_image") for path in (ROOT / source).rglob("*.py")]
    named = re.findall(r'__file__\)\.resolve\(\)\.parents\[\d\] / "([\w.]+)"', "\n".join(map(Path.read_text, code)))
    assert named
    assert set(named) <= folders


def test_every_requirement_is_pinned_and_at_the_version_that_was_tested():
    lines = (ROOT / "requirements" / "gpu.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line) for line in lines), lines
    assert list(pins("gpu.txt")) == sorted(pins("gpu.txt"))
    tested = pins("cpu.txt")
    assert {name: tested[name] for name in pins("gpu.txt") if name in tested} == {
        name: version for name, version in pins("gpu.txt").items() if name in tested
    }


def test_what_is_asked_for_is_among_the_pins_and_what_the_image_brings_is_not():
    wanted = (ROOT / "requirements" / "gpu.in").read_text().splitlines()
    names = {re.match(r"[a-z0-9-]+", line)[0] for line in wanted if not line.startswith("#")}
    assert names <= pins("gpu.txt").keys()
    assert not FROM_THE_IMAGE & pins("gpu.txt").keys()


def test_packages_go_beside_those_of_the_image():
    (install,) = [each for each in instructions("RUN") if "pip install" in each]
    assert "--no-deps" in install
    target = re.search(r"--target=(\S+)", install)[1]
    assert target in environment_of_the_image()["PYTHONPATH"].split(":")
    assert instructions("WORKDIR")[-1] in environment_of_the_image()["PYTHONPATH"].split(":")


def environment_of_the_image() -> dict[str, str]:
    return dict(each.split("=", 1) for line in instructions("ENV") for each in line.split())


def test_the_python_module_is_of_the_version_of_the_copied_libraries():
    version = arguments()["TENSORRT_VERSION"]
    assert pins("gpu.txt")["tensorrt-cu13"] == pins("gpu.txt")["tensorrt-cu13-bindings"] == version
    assert environment_of_the_image()["LD_LIBRARY_PATH"].split(":")[0] == "/opt/tensorrt/lib"


def test_the_environment_is_what_the_models_do_not_set_themselves():
    assert environment_of_the_image()["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" in TextEncoder.__init__.__code__.co_consts


def test_it_does_not_run_as_root_and_owns_the_folders_it_writes_to():
    user, group = re.search(r"^USER (\d+):(\d+)$", final_stage(), re.MULTILINE).groups()
    assert int(user) > 0
    made = re.search(r"install --directory --owner=(\d+) --group=(\d+) (.+)$", final_stage(), re.MULTILINE)
    assert made[1] == user
    assert made[2] == group
    folders = made[3].split()
    assert environment_of_the_image()["HOME"] in folders
    assert {target for service in services() for target in mounts(service)} <= set(folders)


def test_the_labels_say_which_version_it_is():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f'org.opencontainers.image.version="{version}"' in instructions("LABEL")[0]
    assert {each["image"] for each in services().values()} == {f"qwen-image-triton:{version}"}


def test_tritonserver_knows_every_option_of_the_command():
    command = exec_form("CMD")
    command = command[command.index("tritonserver") :]
    binary = tritonserver.wheel_folder() / "bin" / "tritonserver"
    usage = subprocess.run(
        [binary, "--help"], env=tritonserver.environment(), capture_output=True, text=True, check=False
    ).stderr
    for each in command[1:]:
        assert re.search(rf"^\s+{each.split('=')[0]}\b", usage, re.MULTILINE), each
    assert "--disable-auto-complete-config" in command
    assert f"--backend-config=python,stub-timeout-seconds={tritonserver.START_TIMEOUT_S}" in command


def test_the_command_closes_the_apis_for_administrators(tmp_path):
    command = exec_form("CMD")
    launcher = command[: command.index("tritonserver")]
    assert launcher[0] == "python3"
    started = subprocess.run(
        [sys.executable, *launcher[1:], "printf", "%s|", "--log-verbose=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("|")
    assert started[0] == "--log-verbose=1"
    closed = [each.rpartition(":")[0] for each in started[1:-1]]
    assert closed == [f"{option}={','.join(restricted_apis.APIS)}" for option in restricted_apis.OPTIONS]


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Answers every request with its `status` and its `body`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.paths.append(self.path)
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(self.server.body())

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.status, server.body, server.paths = 200, bytes, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def health_check(port: int) -> int:
    _, *options, code = exec_form("HEALTHCHECK")
    code = code.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    return subprocess.run([sys.executable, *options, code], capture_output=True, check=False).returncode


def test_the_health_check_passes_if_the_server_says_that_it_is_ready(server):
    assert health_check(server.server_port) == 0
    assert server.paths == ["/v2/health/ready"]


def test_the_health_check_fails_if_the_server_says_that_it_is_not_ready(server):
    server.status = 400
    assert health_check(server.server_port) == 1


def test_the_health_check_fails_if_nobody_listens():
    assert health_check(tritonserver.Ports.free().http) == 1


def test_the_lines_that_wait_for_images_wait_until_none_was_in_flight_at_two_looks(server):
    counts = iter([2, 1, 0, 1, 0, 0, 7])
    server.body = lambda: b'qwen_image_images_in_flight{model="sampler"} %d\n' % next(counts)
    (lines,) = re.findall(r"```sh\n(busy\(\).+?)docker compose stop", DOC.read_text(), re.DOTALL)
    lines = lines.replace("localhost:8002", f"127.0.0.1:{server.server_port}").replace("sleep 1", "sleep 0.01")
    subprocess.run(["sh", "-c", lines], check=True, timeout=30)
    assert server.paths == ["/metrics"] * 6


def test_the_ports_are_the_images_and_nobody_else_reaches_them_by_default():
    bound = [re.fullmatch(r"\$\{\w+:-(.+?)\}:\$\{\w+:-(\d+)\}:(\d+)", each) for each in services()["triton"]["ports"]]
    assert [each[1] for each in bound] == ["127.0.0.1"] * 3
    assert [each[2] for each in bound] == [each[3] for each in bound] == instructions("EXPOSE")[0].split()


def test_the_engines_are_built_where_the_server_looks_for_models():
    command = services()["build"]["command"]
    output = option(command, "--output")
    assert f"--model-repository={output}/repository" in exec_form("CMD")
    assert 'output / "repository"' in module_file(command).read_text()
    assert mounts("build")[output]["source"] == mounts("triton")[output]["source"]
    assert option(command, "--checkpoint") in mounts("triton")


def module_file(command: list[str]) -> Path:
    assert command[:2] == ["python3", "-m"]
    return ROOT / f"{command[2].replace('.', '/')}.py"


def test_the_command_that_builds_engines_knows_its_options_and_the_library(usage_of):
    command = services()["build"]["command"]
    usage = usage_of(module_file(command))
    for each in command[3::2]:
        assert re.search(rf"^\s+{each}\b", usage, re.MULTILINE), each
    assert option(command, "--library") in re.search(r"--library \{([\w,]+)\}", usage)[1].split(",")


def test_only_engines_and_caches_are_written():
    for service in services().values():
        assert service["read_only"] is True
        assert any(each.startswith("/tmp:exec") for each in service["tmpfs"])
    writable = {
        service: {target for target, each in mounts(service).items() if not each.get("read_only")}
        for service in services()
    }
    home = environment_of_the_image()["HOME"]
    assert writable == {"build": {"/models", home}, "triton": {home}}


def test_services_have_no_privileges_one_gpu_and_room_in_shared_memory():
    for service in services().values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"], len(device["device_ids"])) == ("nvidia", ["gpu"], 1)
        assert service["mem_limit"] == "${QWEN_IMAGE_MEMORY:-64g}"
        assert service["pids_limit"] == "${QWEN_IMAGE_PIDS:-4096}"
        assert service["shm_size"] == "${QWEN_IMAGE_SHM_SIZE:-4g}"


def test_the_server_comes_back_and_has_time_to_end():
    triton, build = services()["triton"], services()["build"]
    assert triton["restart"] == "unless-stopped"
    exit_timeout_s = tritonserver.TritonServer.__dataclass_fields__["exit_timeout_s"].default
    assert int(triton["stop_grace_period"].removesuffix("s")) > exit_timeout_s
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
    assert "restart" not in build
    assert build["profiles"] == ["build"]


def test_every_variable_of_the_compose_file_is_documented_with_its_default():
    compose, doc = (ROOT / "compose.yaml").read_text(), DOC.read_text()
    rows = "\n".join(line for line in doc.splitlines() if line.startswith("| QWEN_IMAGE_"))
    for name, default in re.findall(r"\$\{(\w+)(?::-([^}]+))?", compose):
        assert re.search(rf"\b{name}\b.*{re.escape(default)}", rows), name


def test_the_versions_in_the_documentation_are_those_in_the_dockerfile():
    text = DOC.read_text()
    for version in (arguments()["TRITON_VERSION"], arguments()["TENSORRT_VERSION"]):
        assert version in text
    assert f"{exec_form('CMD')[-1].rpartition('=')[2]} s" in text
