"""What docs/gateway.md shows is run as it stands there; its tables name what there is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from qwen_image_gateway.arguments import read_arguments
from qwen_image_gateway.errors import CODES
from qwen_image_gateway.middleware.access import LOOPBACK
from qwen_image_gateway.schemas import EditFields
from qwen_image_gateway.settings import GatewaySettings, SettingsError

PACKAGE = Path(__file__).resolve().parents[2] / "clients" / "qwen_image_gateway"
DOCUMENT = PACKAGE.parents[1] / "docs" / "gateway.md"
TEXT = DOCUMENT.read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def run(command: list[str], gateway, folder: Path) -> str:
    text = command[-1].replace("http://localhost:8080", gateway.url)
    done = subprocess.run([*command[:-1], text], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_curl_commands_run(gateway, tmp_path):
    run(["bash", "-euo", "pipefail", "-c", blocks("sh")[1]], gateway, tmp_path)
    with Image.open(tmp_path / "circle.png") as circle:
        assert circle.size == (128, 128)
    assert '"b64_json"' in (tmp_path / "answer.json").read_text()
    events = re.findall("^event: (.*)$", (tmp_path / "events.txt").read_text(), re.MULTILINE)
    assert events == [*["image_generation.partial_image"] * 2, "image_generation.completed"]


def test_the_python_runs(gateway, tmp_path):
    (source,) = blocks("python")
    said = run([sys.executable, "-c", source], gateway, tmp_path)
    assert said.count("image_generation.partial_image") == 3
    assert {path.name for path in tmp_path.glob("*.png")} == {"circle-7.png", "circle-8.png", "square.png"}


@pytest.mark.parametrize("name", EditFields.model_fields)
def test_every_field_is_in_the_table(name):
    rows = re.search(r"\| field \|.*?\n\n", TEXT, re.DOTALL)[0]
    assert re.search(rf"\b{name}\b", rows)


def test_every_code_of_an_error_is_in_the_table():
    table = re.search(r"\| status \|.*?\n\n", TEXT, re.DOTALL)[0]
    ours = {"internal_error", "caller_left", "answer_not_read"}  # a mistake of ours, and answers that nobody reads
    codes = codes_of_errors()
    assert {"queue_full", "unknown_field", "timeout"} <= codes
    assert {code for code in codes - ours if code not in table} == set()
    by_default = {"invalid_value", "bad_request", "not_found", "method_not_allowed"}  # ours, and Starlette's own
    assert set(CODES) == codes | by_default


def codes_of_errors() -> set[str]:
    """The third argument wherever an error is made."""
    calls = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    return {
        call.args[2].value
        for call in calls
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", None) in ("ApiError", "invalid", "unprocessable")
        and len(call.args) > 2
        and isinstance(call.args[2], ast.Constant)
    }


def test_every_flag_and_metric_that_it_names_exists():
    known = {f"--{each.name.replace('_', '-')}" for each in fields(GatewaySettings)} | {
        "--port",
        "--allowed-host",
        "--cors-origin",
        "--served-model-name",
    }
    others = {"--gateway", "--help", "--trace-config", "--checkpoint"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known | others
    metrics = (PACKAGE / "telemetry.py").read_text()
    assert all(name in metrics for name in re.findall(r"qwen_image_gateway_\w+", TEXT))


def test_the_command_line_reads_every_setting():
    assert read_arguments([])[0] == GatewaySettings(allowed_hosts=LOOPBACK)
    settings, _ = read_arguments(
        ["--cors-origin", "a", "--cors-origin", "b", "--served-model-name", "c", "--max-requests", "3"]
    )
    assert settings == GatewaySettings(
        cors_origins=("a", "b"), served_model_names=("c",), max_requests=3, allowed_hosts=LOOPBACK
    )


def test_the_environment_sets_what_is_not_typed(monkeypatch):
    for name, value in [("PORT", "8090"), ("CORS_ORIGIN", "a, b"), ("MAX_REQUESTS", "3"), ("PAGE", "1")]:
        monkeypatch.setenv(f"QWEN_IMAGE_GATEWAY_{name}", value)
    settings, address = read_arguments(["--max-requests", "4"])
    assert (address.port, settings.cors_origins, settings.max_requests, settings.page) == (8090, ("a", "b"), 4, True)
    assert read_arguments(["--cors-origin=c"])[0].cors_origins == ("c",)
    monkeypatch.setenv("QWEN_IMAGE_GATEWAY_PAGE", "maybe")
    with pytest.raises(SettingsError, match="QWEN_IMAGE_GATEWAY_PAGE=maybe must be one of"):
        read_arguments([])
