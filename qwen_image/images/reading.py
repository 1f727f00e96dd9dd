"""A picture or a mask out of the bytes that a request carries: checked before it is decoded, upright, 8 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import Image

from qwen_image.errors import InvalidRequest
from qwen_image.families import LONGEST_RATIO
from qwen_image.images.colours import in_srgb
from qwen_image.images.files import Opened, format_of, kind_of, open_file

_UPRIGHT = {  # EXIF's orientation -> what undoes it; 1 is upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ON_ITS_SIDE = (5, 6, 7, 8)  # of these orientations, whose width becomes the height
_ORIENTATION_TAG, _SHORT = 0x112, 3


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What a picture or mask of a request may be."""

    max_bytes: int = 16 * 1024 * 1024  # of the file
    max_pixels: int = 4096 * 4096
    min_side: int = 8  # pixels
    max_aspect_ratio: float = LONGEST_RATIO  # longer side to shorter side
    formats: tuple[str, ...] = ("PNG", "JPEG", "WEBP")


def checked_size(data: bytes, name: str, limits: PictureLimits) -> tuple[int, int]:
    """(width, height) of a file's picture upright, without a pixel decoded. InvalidRequest if the limits forbid it."""
    with _refusing(name):
        opened = _checked(data, name, limits)
        width, height = opened.picture.size
        return (height, width) if _orientation(opened.exif) in _ON_ITS_SIDE else (width, height)


def read_picture(data: bytes, name: str, limits: PictureLimits) -> Image.Image:
    """A file's picture in mode RGB, what is transparent over white. InvalidRequest says of `name` what is wrong."""
    with _refusing(name):
        picture, profile = _decoded(data, name, limits)
        picture = in_srgb(picture, profile)
        if not picture.has_transparency_data:
            return _bare(picture.convert("RGB"))
        canvas = Image.new("RGB", picture.size, "white")
        layer = picture.convert("RGBA")
        canvas.paste(layer, mask=layer)
        return canvas


def read_mask(data: bytes, name: str, limits: PictureLimits) -> Image.Image:
    """A file's picture in mode L: white is painted, black is kept. InvalidRequest says of `name` what is wrong.

    Transparent pixels are refused: editors mean by them what is to be painted, brushes on an empty layer the opposite.
    """
    with _refusing(name):
        picture, _ = _decoded(data, name, limits)  # a mask's values are numbers, no colours
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            if picture.getchannel("A").getextrema() != (255, 255):
                raise InvalidRequest(
                    f"{name} has transparent pixels; send a mask without, white where to paint and black where to keep"
                )
        return _bare(picture.convert("L"))


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidRequest:
        raise
    except Exception as error:  # damaged files make PIL raise nearly anything
        raise InvalidRequest(f"{name} can't be read: {error}; save it again with another program") from error


def _decoded(data: bytes, name: str, limits: PictureLimits) -> tuple[Image.Image, bytes]:
    """The picture upright, of any mode of 8 bits or less, and its colour profile."""
    opened = _checked(data, name, limits)
    opened.picture.load()
    method = _UPRIGHT.get(_orientation(opened.exif))
    picture = opened.picture if method is None else opened.picture.transpose(method)
    return (_eight_bits(picture) if picture.mode == "I;16" else picture), opened.profile


def _checked(data: bytes, name: str, limits: PictureLimits) -> Opened:
    _check_file(data, name, limits)
    opened = _opened(data, name, limits)
    _check_picture(opened, name, limits)
    return opened


def _check_file(data: bytes, name: str, limits: PictureLimits) -> None:
    if len(data) > limits.max_bytes:
        raise InvalidRequest(f"{name} has {len(data)} bytes; at most {limits.max_bytes} are allowed: scale it down")
    file_format = format_of(data)
    if file_format not in limits.formats:
        kind = f"a {file_format}" if file_format else kind_of(data)
        raise InvalidRequest(f"{name} is {kind}; send the bytes of a {' or '.join(limits.formats)} file")


def _opened(data: bytes, name: str, limits: PictureLimits) -> Opened:
    try:
        return open_file(data, str(format_of(data)))
    except Image.DecompressionBombError as error:
        raise InvalidRequest(f"{name} has over {limits.max_pixels} pixels, the most allowed: scale it down") from error


def _check_picture(opened: Opened, name: str, limits: PictureLimits) -> None:
    width, height = opened.picture.size
    pixels = width * height
    if opened.frames > 1:
        raise InvalidRequest(f"{name} has {opened.frames} frames; send one picture")
    if pixels > limits.max_pixels:
        raise InvalidRequest(
            f"{name} is {width}x{height}, {pixels} pixels; at most {limits.max_pixels} are allowed: scale it down"
        )
    if min(width, height) < limits.min_side:
        raise InvalidRequest(f"{name} is {width}x{height}; each side must have {limits.min_side} pixels or more")
    if max(width, height) > limits.max_aspect_ratio * min(width, height):
        raise InvalidRequest(
            f"{name} is {width}x{height}; its longer side may be {limits.max_aspect_ratio:g} times its shorter side "
            "at most: crop it"
        )


def _orientation(exif: bytes) -> int:
    """1 to 8; 1, upright, where EXIF is silent or broken. Of all of EXIF only this is read."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(order + "I", exif, 4)
        (entries,) = struct.unpack_from(order + "H", exif, start)
        for entry in range(entries):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", exif, start + 2 + 12 * entry)
            if tag == _ORIENTATION_TAG and kind == _SHORT:
                return int(value)
    except struct.error:
        pass  # beyond the end
    return 1


def _eight_bits(picture: Image.Image) -> Image.Image:
    """16 bits of grey scaled to 8, where PIL's own conversion clips them: mode L, or LA if one grey is transparent."""
    values = np.asarray(picture)  # (H, W) uint16
    grey = Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))
    key = picture.info.get("transparency")
    if key is not None:
        grey.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    return grey


def _bare(picture: Image.Image) -> Image.Image:
    picture.info.clear()  # a WebP's metadata come with it
    return picture
