"""The demo's models are trained and paint here: minutes."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def trained_and_painted(slow) -> None:
    """Marks all tests of this folder as slow."""
