"""What the docs show is run as it stands there, against a real server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "QWEN_IMAGE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("source", blocks(ROOT / "docs" / "clients.md", "python"))
def test_the_python_of_the_docs_runs(server, tmp_path, source):
    script = tmp_path / "example.py"
    script.write_text(source.replace("localhost:8001", server.grpc_url))
    result = run([sys.executable, str(script)], tmp_path, server.grpc_url)
    assert result.returncode == 0, result.stderr
    assert "20 of 20" in result.stdout
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names == {"circle-7.png", "circle-8.png", "star.png"}
    with Image.open(tmp_path / "star.png") as star:
        assert star.size == (128, 128)


def test_the_commands_of_the_docs_run(server, tmp_path):
    generate, again, _ = blocks(ROOT / "docs" / "clients.md", "sh")[0].splitlines()
    for command in (generate, again):
        result = run(shlex.split(command), tmp_path, server.grpc_url)
        assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.glob("*.png"))) == 5


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_every_link_and_script_that_a_document_names_is_there(document):
    text = document.read_text()
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    for link in filter(None, links):
        assert (document.parent / link).exists(), link
    for script in set(re.findall(r"\bscripts/[a-z_.]+|\bbuild/[a-z_]+\.py|\bqwen_image/[a-z_/]+\.py", text)):
        assert (ROOT / script.rstrip(".")).exists(), script
