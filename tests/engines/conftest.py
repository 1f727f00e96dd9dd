"""What tests of engines share."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_image.checkpoint import Checkpoint, open_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return open_checkpoint(tiny_checkpoint)
