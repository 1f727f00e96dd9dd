"""Input images and masks: taken from data URLs, checked by their headers, masks converted to the server's meaning."""

from __future__ import annotations

import base64
import binascii
import warnings
from collections.abc import Iterable
from io import BytesIO

from PIL import Image, ImageOps

from qwen_image_gateway.errors import ApiError, invalid

_FORMATS = ("PNG", "JPEG", "WEBP")  # what Triton reads: no other decoder of Pillow's is opened
_MAX_SHOWN = 40  # characters of a rejected text
_OPAQUE = 255


def decode_data_url(name: str, text: str) -> bytes:
    """The file in a data URL (RFC 2397), or in base64 alone. Nothing is fetched from anywhere.

    Raises:
        ApiError: the field `name` holds neither.
    """
    head, comma, data = text.partition(",")
    if text[:5].lower() != "data:":
        head, comma, data = "data:;base64", ",", text
    if "://" in text[:12] or not comma or not head.lower().endswith(";base64"):
        raise invalid(
            f"{name}={text[:_MAX_SHOWN]!r} is no data URL of base64, data:image/png;base64,...: nothing is fetched "
            "from elsewhere",
            name,
        )
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name} holds no base64: {error}", name) from error


def check_images(contents: Iterable[bytes], max_pixels: int, name: str = "image") -> None:
    """Checks each file's header. Call it off the event loop: a PNG's header may hold 64 MiB of compressed text.

    An unreadable file passes: Triton's error says what it is and what is allowed.

    Raises:
        ApiError: a file is empty, which Triton takes for no image, or has too many pixels.
    """
    for content in contents:
        _check_image(name, content, max_pixels)


def _check_image(name: str, content: bytes, max_pixels: int) -> None:
    if not content:
        raise invalid(f"{name} is an empty file", name)
    size = _read_size(content)
    if size is not None and size[0] * size[1] > max_pixels:
        raise ApiError(
            413,
            f"{name} has {size[0]} x {size[1]} pixels, at most {max_pixels} in all are taken: send it smaller",
            "picture_too_large",
            name,
        )


def _read_size(content: bytes) -> tuple[int, int] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # nothing is decoded here
        try:
            with Image.open(BytesIO(content), formats=_FORMATS) as image:
                return image.size
        except Image.DecompressionBombError as error:
            raise ApiError(413, f"a picture is far too large: {error}", "picture_too_large") from error
        except (OSError, ValueError, SyntaxError):
            return None


def convert_mask(content: bytes) -> bytes:
    """An OpenAI mask, whose transparent pixels are to be repainted, as the server's: grey, white is repainted.

    A mask without transparent pixels is taken for grey and returned as it is. So is an unreadable one, for Triton's
    error says what is wrong with it.
    """
    try:
        with Image.open(BytesIO(content), formats=_FORMATS) as mask:
            alpha = _read_alpha(mask)
    except (OSError, ValueError, SyntaxError, EOFError):
        return content
    if alpha is None:
        return content
    buffer = BytesIO()
    ImageOps.invert(alpha).save(buffer, "PNG")
    return buffer.getvalue()


def _read_alpha(mask: Image.Image) -> Image.Image | None:
    """The opacity of each pixel, upright; None if every pixel is opaque."""
    if not mask.has_transparency_data or getattr(mask, "n_frames", 1) > 1:
        return None
    alpha = ImageOps.exif_transpose(mask).convert("RGBA").getchannel("A")
    return None if alpha.getextrema()[0] == _OPAQUE else alpha
