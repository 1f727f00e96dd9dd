"""Values that are not finite are an error where they first reach the CPU: what follows would be a black image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import NotFinite


def check_finite(values: NDArray[np.floating[Any]], model: str, what: str) -> None:
    """NotFinite names the model and `what` it computed, as in "latents after step 3 of 20"."""
    if not np.isfinite(values).all():
        raise not_finite(model, what)


def not_finite(model: str, what: str) -> NotFinite:
    return NotFinite(
        f"{model} computed {what} that are not finite (NaN or infinity): its weights are broken, or do not fit the "
        "precision that it computes in"
    )
