"""The pictures of a request: read from files, brought to the sizes that the models see, passed between them."""

from qwen_image.images.geometry import (
    fitted_size,
    fitted_within,
    mask_array,
    packed,
    packed_bytes,
    pixels,
    resized,
    unpacked,
)
from qwen_image.images.reading import PictureLimits, checked_size, read_mask, read_picture

__all__ = [
    "PictureLimits",
    "checked_size",
    "fitted_size",
    "fitted_within",
    "mask_array",
    "packed",
    "packed_bytes",
    "pixels",
    "read_mask",
    "read_picture",
    "resized",
    "unpacked",
]
