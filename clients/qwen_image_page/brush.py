"""The mask brush: its image and strokes as the init image and the mask of inpainting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from qwen_image_client import InvalidRequest

_MIN_OPACITY = 1  # of 255: the brush's soft rim counts, so that a stroke has no hard fringe of the old image


@dataclass(frozen=True, slots=True)
class BrushedImage:
    """The image, and its mask of the same size: white where the brush was."""

    image: Image.Image
    mask: Image.Image


def read_brush(editor: Mapping[str, Any] | None) -> BrushedImage:
    """Reads gr.ImageEditor's value: its background, and its layers' opacity.

    Raises:
        InvalidRequest: there is no image, or nothing is brushed over.
    """
    background = None if editor is None else editor.get("background")
    if editor is None or background is None or not np.asarray(background.convert("RGBA"))[..., 3].any():
        raise InvalidRequest("There is no picture to inpaint: upload one, then brush over what is to be painted.")
    image = background.convert("RGB")
    opacity = np.zeros((image.height, image.width), np.uint8)
    for layer in editor.get("layers") or ():
        rgba = layer.convert("RGBA")
        resized = rgba if rgba.size == image.size else rgba.resize(image.size)
        opacity = np.maximum(opacity, np.asarray(resized)[..., 3])
    if not opacity.any():
        raise InvalidRequest("Nothing is brushed over: brush over what is to be painted.")
    return BrushedImage(image, Image.fromarray(np.where(opacity >= _MIN_OPACITY, 255, 0).astype(np.uint8)))
