"""Colour profiles: a picture's values become sRGB's, as browsers do it. A broken or unfit profile is ignored."""

from __future__ import annotations

import zlib
from functools import cache
from io import BytesIO

from PIL import Image, ImageCms

MAX_PROFILE_BYTES = 4 * 1024 * 1024  # of CMYK presses have 2 MB at most
_SPACES = {"L": "GRAY", "RGB": "RGB", "RGBA": "RGB", "CMYK": "CMYK"}  # a mode's in ICC's words


def inflated(content: bytes) -> bytes:
    """The profile in a PNG's iCCP chunk (name, 0, method, deflated); empty if it is broken or too large."""
    deflated = content.partition(b"\0")[2][1:]
    inflate = zlib.decompressobj()
    try:
        profile = inflate.decompress(deflated, MAX_PROFILE_BYTES)
    except zlib.error:
        return b""
    return profile if inflate.eof else b""


def in_srgb(picture: Image.Image, profile: bytes) -> Image.Image:
    """The picture, of any mode of 8 bits, as it looks by its profile; unchanged without one that fits its mode."""
    if not profile or len(profile) > MAX_PROFILE_BYTES:
        return picture
    if picture.mode == "P" or (picture.mode in ("L", "RGB") and picture.has_transparency_data):
        picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        if source.profile.xcolor_space.strip() != _SPACES.get(picture.mode):
            return picture
        mode = "RGBA" if picture.mode == "RGBA" else "RGB"
        intent = ImageCms.Intent.RELATIVE_COLORIMETRIC
        return ImageCms.profileToProfile(picture, source, _srgb(), intent, outputMode=mode) or picture
    except (ImageCms.PyCMSError, OSError, ValueError):
        return picture


@cache
def _srgb() -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
