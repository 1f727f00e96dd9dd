"""What a mask's pixels mean."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from qwen_image_gateway.requests.images import convert_mask
from tests.pictures import png

PAINT_LEFT = np.array([[255, 255, 0, 0]] * 4, np.uint8)


def transparent(mode: str, file_format: str = "PNG") -> bytes:
    """Black pictures of 4 x 4 whose left half is transparent."""
    if mode == "P":
        indices = Image.fromarray((PAINT_LEFT == 255).astype(np.uint8), "L").convert("P")
        buffer = io.BytesIO()
        indices.save(buffer, "PNG", transparency=1)
        return buffer.getvalue()
    image = Image.new(mode, (4, 4))
    image.putalpha(Image.fromarray(255 - PAINT_LEFT))
    buffer = io.BytesIO()
    image.save(buffer, file_format)
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_painted(mode):
    with Image.open(io.BytesIO(convert_mask(transparent(mode)))) as mask:
        assert mask.mode == "L"
        assert np.array_equal(np.asarray(mask), PAINT_LEFT)


@pytest.mark.parametrize(
    "content",
    [
        png(Image.fromarray(PAINT_LEFT)),
        png(Image.fromarray(PAINT_LEFT).convert("RGBA")),
        b"no picture",
        transparent("RGBA")[:45],
        transparent("RGBA", "TIFF"),
    ],
    ids=["grey", "opaque", "no picture", "damaged", "a format that Triton doesn't read"],
)
def test_what_has_no_transparency_or_can_not_be_read_is_left_as_it_is(content):
    assert convert_mask(content) == content


def test_a_mask_of_a_phone_is_turned_upright():
    image = Image.new("RGBA", (2, 4), (0, 0, 0, 255))
    image.putpixel((0, 0), (0, 0, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by 90 degrees to the right
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    with Image.open(io.BytesIO(convert_mask(buffer.getvalue()))) as mask:
        assert mask.size == (4, 2)
        assert mask.getpixel((3, 0)) == 255
