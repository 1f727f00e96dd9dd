"""Sizes and arrays of pictures as diffusers makes them, and the raw form in which they travel between models."""

from __future__ import annotations

import math
import struct

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qwen_image.errors import InvalidRequest

_SHAPE = struct.Struct("<II")  # height, width
_CHANNELS = 3


def fitted_size(area: int, width: int, height: int, multiple: int) -> tuple[int, int]:
    """(width, height) of about `area` pixels with the sides' ratio, each rounded to a `multiple`: diffusers'
    `calculate_dimensions`, but never 0."""
    ratio = width / height
    fitted_width = math.sqrt(area * ratio)
    fitted_height = fitted_width / ratio
    return (
        max(round(fitted_width / multiple) * multiple, multiple),
        max(round(fitted_height / multiple) * multiple, multiple),
    )


def fitted_within(max_side: int, area: int, width: int, height: int, multiple: int) -> tuple[int, int]:
    """`fitted_size` of less area where a side would be over `max_side`, itself a multiple of `multiple`."""
    longest_ratio = max(width, height) / min(width, height)
    return fitted_size(min(area, int(max_side**2 / longest_ratio)), width, height, multiple)


def resized(picture: Image.Image, width: int, height: int) -> Image.Image:
    """Stretched to the size, as `VaeImageProcessor.resize` does with its defaults."""
    return picture.resize((width, height), Image.Resampling.LANCZOS)


def pixels(picture: Image.Image) -> NDArray[np.uint8]:
    """Mode RGB -> (H, W, 3), 0 to 255."""
    return np.array(picture, dtype=np.uint8)


def mask_array(mask: Image.Image, width: int, height: int) -> NDArray[np.uint8]:
    """Mode L -> (height, width): 255 where to paint, 0 where to keep, as diffusers' mask processors have 1 and 0."""
    grey = np.array(resized(mask, width, height))
    return np.where(grey >= 128, 255, 0).astype(np.uint8)  # 0.5, their threshold, is 127.5


def packed(array: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) as one element of a BYTES tensor, height and width in front."""
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != _CHANNELS:
        raise ValueError(f"a picture is uint8 (H, W, 3), not {array.dtype} {array.shape}")
    return _SHAPE.pack(*array.shape[:2]) + array.tobytes()


def packed_bytes(array: NDArray[np.uint8]) -> int:
    """How many bytes `packed` makes of a picture (H, W, 3)."""
    return _SHAPE.size + array.size


def unpacked(data: bytes) -> NDArray[np.uint8]:
    """The array that `packed` was given, as a writable copy. InvalidRequest if the shape in front does not fit: the
    models inside the server can be called from outside too."""
    if len(data) < _SHAPE.size:
        raise InvalidRequest(f"a packed picture has {len(data)} bytes; its header alone has {_SHAPE.size}")
    height, width = _SHAPE.unpack_from(data)
    size = height * width * _CHANNELS
    if size == 0 or size != len(data) - _SHAPE.size:
        raise InvalidRequest(
            f"a packed picture says {height}x{width} before {len(data) - _SHAPE.size} bytes; "
            f"the bytes must be height x width x {_CHANNELS}, and more than none"
        )
    return np.frombuffer(data, np.uint8, offset=_SHAPE.size).reshape(height, width, _CHANNELS).copy()
