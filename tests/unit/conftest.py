"""What unit tests share: the tiny checkpoint opened, diffusers' pipeline over it, and a rendered repository."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from diffusers import QwenImagePipeline

from build.repository import render_repository
from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.dit.load import load_transformer
from qwen_image.dit.transformer import Transformer


@pytest.fixture(scope="session")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return open_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="session")
def pipeline(tiny_checkpoint: Path) -> QwenImagePipeline:
    """diffusers' own, the reference for numbers."""
    pipeline = QwenImagePipeline.from_pretrained(tiny_checkpoint)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.fixture(scope="session")
def engine(checkpoint: Checkpoint) -> Transformer:
    return load_transformer(checkpoint)


@pytest.fixture(scope="session")
def repository(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered from the tracked templates."""
    return render_repository(checkpoint, tmp_path_factory.mktemp("rendered") / "repository")


@pytest.fixture
def usage_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], str]:
    """What a script prints for `--help`. It runs in this process, where most of what it imports is there already."""

    def run(path: Path) -> str:
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run
