"""A picture with a colour profile is read as it looks."""

from __future__ import annotations

import struct
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageCms

from qwen_image.images import PictureLimits, read_mask, read_picture

SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
P3_PRIMARIES = {b"rXYZ": (0.51512, 0.2412, -0.00105), b"gXYZ": (0.29198, 0.69225, 0.04189)}
P3_PRIMARIES |= {b"bXYZ": (0.1571, 0.06657, 0.78407)}
D50 = (0.9642, 1.0, 0.82491)


def fixed(*values: float) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def profile(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    """ICC, version 4: a display of `space`, its tags as they are."""
    tags = {b"wtpt": xyz(D50)} | tags
    table, body = struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += struct.pack(">4sII", name, 132 + 12 * len(tags) + len(body), len(content))
        body += content
    head = struct.pack(">I4sI4s4s4s", 0, b"\0" * 4, 0x04300000, b"mntr", space, b"XYZ ") + b"\0" * 12 + b"acsp"
    head = head.ljust(68, b"\0") + fixed(*D50)
    whole = head.ljust(128, b"\0") + table + body
    return struct.pack(">I", len(whole)) + whole[4:]


def xyz(values: tuple[float, ...]) -> bytes:
    return b"XYZ \0\0\0\0" + fixed(*values)


CURVE = b"para\0\0\0\0\0\3\0\0" + fixed(*SRGB_CURVE)
DARK = b"para\0\0\0\0\0\0\0\0" + fixed(1.0)  # linear light
P3 = profile(
    b"RGB ",
    {name: xyz(value) for name, value in P3_PRIMARIES.items()} | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), CURVE),
)
LINEAR_GREY = profile(b"GRAY", {b"kTRC": DARK})
GREEN = Image.new("RGB", (16, 16), (40, 200, 80))


def first_pixel(picture: Image.Image, file_format: str, **options: object) -> tuple[int, ...]:
    buffer = BytesIO()
    picture.save(buffer, file_format, **options)
    return tuple(map(int, np.array(read_picture(buffer.getvalue(), "image", PictureLimits()))[0, 0]))


@pytest.mark.parametrize(
    ("file_format", "options"),
    [("PNG", {}), ("JPEG", {"quality": 100, "subsampling": 0}), ("WEBP", {"lossless": True})],
)
def test_display_p3_becomes_srgb(file_format, options):
    assert first_pixel(GREEN, file_format, icc_profile=P3, **options) == pytest.approx((0, 204, 58), abs=3)


@pytest.mark.parametrize("picture", [GREEN.quantize(2), GREEN.convert("RGBA")], ids=["palette", "RGBA"])
def test_every_mode_of_a_coloured_png_heeds_its_profile(picture):
    assert first_pixel(picture, "PNG", icc_profile=P3) == pytest.approx((0, 204, 58), abs=3)


def test_grey_of_linear_light_becomes_lighter():
    assert first_pixel(Image.new("L", (16, 16), 55), "PNG", icc_profile=LINEAR_GREY) == pytest.approx((128,) * 3, abs=2)


def test_transparency_stays_what_it_was():
    half = Image.new("RGBA", (16, 16), (40, 200, 80, 0))
    assert first_pixel(half, "PNG", icc_profile=P3) == (255, 255, 255)


@pytest.mark.parametrize("broken", [b"no profile", P3[:200], LINEAR_GREY])
def test_a_profile_that_is_broken_or_of_other_colours_is_ignored(broken):
    assert first_pixel(GREEN, "PNG", icc_profile=broken) == (40, 200, 80)


def test_srgb_itself_changes_nothing():
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert first_pixel(GREEN, "PNG", icc_profile=srgb) == pytest.approx((40, 200, 80), abs=1)


def test_a_mask_is_taken_by_its_values():
    buffer = BytesIO()
    Image.new("L", (16, 16), 100).save(buffer, "PNG", icc_profile=LINEAR_GREY)
    assert np.all(np.array(read_mask(buffer.getvalue(), "mask", PictureLimits())) == 100)
