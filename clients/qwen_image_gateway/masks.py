"""Masks as OpenAI's callers send them, turned into those that Triton takes: grey, white is painted.

OpenAI's are pictures whose transparent parts are to be painted. One without any is taken as grey, as it is.
"""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageOps

from qwen_image_gateway.pictures import READ

_OPAQUE = 255


def grey_mask(content: bytes) -> bytes:
    """The mask as Triton takes it. What can't be read is passed on, for Triton says what is wrong with a picture."""
    try:
        with Image.open(BytesIO(content), formats=READ) as mask:
            alpha = _alpha(mask)
    except (OSError, ValueError, SyntaxError, EOFError):
        return content
    if alpha is None:
        return content
    buffer = BytesIO()
    ImageOps.invert(alpha).save(buffer, "PNG")
    return buffer.getvalue()


def _alpha(mask: Image.Image) -> Image.Image | None:
    """How opaque each pixel is, upright; None where all are."""
    if not mask.has_transparency_data or getattr(mask, "n_frames", 1) > 1:
        return None
    alpha = ImageOps.exif_transpose(mask).convert("RGBA").getchannel("A")
    return None if alpha.getextrema()[0] == _OPAQUE else alpha
