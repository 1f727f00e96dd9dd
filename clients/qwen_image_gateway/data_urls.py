"""Files inside texts: data URLs (RFC 2397), read and written. Nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import binascii

from qwen_image_gateway.errors import invalid

_SHOWN = 40  # characters of a text that is none


def content_of(name: str, text: str) -> bytes:
    """The file in a data URL, or in base64 alone.

    Raises:
        ApiError: `name` holds neither.
    """
    head, comma, data = text.partition(",")
    if text[:5].lower() != "data:":
        head, comma, data = "data:;base64", ",", text
    if "://" in text[:12] or not comma or not head.lower().endswith(";base64"):
        raise invalid(
            f"{name}={text[:_SHOWN]!r} is no data URL of base64, data:image/png;base64,...: nothing is fetched from "
            "elsewhere",
            name,
        )
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name} holds no base64: {error}", name) from error


def data_url(file_format: str, content_base64: str) -> str:
    """The URL that holds a file, given in base64."""
    return f"data:image/{file_format};base64,{content_base64}"
