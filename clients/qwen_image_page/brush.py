"""What a brush left on a picture, as the two pictures that inpainting wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from qwen_image_client import InvalidRequest

_TOUCHED = 1  # of 255: the brush's soft rim counts, so that a stroke has no hard fringe of the old picture


@dataclass(frozen=True, slots=True)
class Brushed:
    """The picture, and its mask of the same size: white where the brush was."""

    picture: Image.Image
    mask: Image.Image


def brushed(editor: Mapping[str, Any] | None) -> Brushed:
    """Reads gr.ImageEditor's value: its background, and its layers' opacity.

    Raises:
        InvalidRequest: there is no picture, or nothing is brushed over.
    """
    background = None if editor is None else editor.get("background")
    if editor is None or background is None or not np.asarray(background.convert("RGBA"))[..., 3].any():
        raise InvalidRequest("There is no picture to inpaint: upload one, then brush over what is to be painted.")
    picture = background.convert("RGB")
    opacity = np.zeros((picture.height, picture.width), np.uint8)
    for layer in editor.get("layers") or ():
        fitted = layer.convert("RGBA").resize(picture.size) if layer.size != picture.size else layer.convert("RGBA")
        opacity = np.maximum(opacity, np.asarray(fitted)[..., 3])
    if not opacity.any():
        raise InvalidRequest("Nothing is brushed over: brush over what is to be painted.")
    return Brushed(picture, Image.fromarray(np.where(opacity >= _TOUCHED, 255, 0).astype(np.uint8)))
