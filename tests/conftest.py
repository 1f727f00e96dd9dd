"""What all tests share: a tiny random checkpoint, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from build.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder in the diffusers layout; its default size is 128 x 128."""
    return write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")
