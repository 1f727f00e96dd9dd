"""Capital letters and digits as masks: cut from Pillow's own font, all equally tall, none wider than its cell."""

from __future__ import annotations

import string
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

LETTERS = string.ascii_uppercase
DIGITS = string.digits
MAX_WIDTH = 0.84  # of the glyph's height; the pitch of a word is one height, so neighbours never touch

_FONT_PX = 160
_STROKE_PX = 7


@lru_cache(maxsize=64)
def _drawn(character: str) -> Image.Image:
    canvas = Image.new("L", (2 * _FONT_PX, 2 * _FONT_PX))
    font = ImageFont.load_default(_FONT_PX)
    ImageDraw.Draw(canvas).text((_FONT_PX // 2, _FONT_PX // 4), character, fill=255, font=font, stroke_width=_STROKE_PX)
    return canvas.crop(canvas.getbbox())


@lru_cache(maxsize=8192)
def glyph_mask(character: str, height: int) -> Image.Image:
    """The character's coverage, 0 to 255, in a box of this height and its own width."""
    drawn = _drawn(character)
    width = min(MAX_WIDTH * height, drawn.width / drawn.height * height)
    return drawn.resize((max(1, round(width)), height), Image.Resampling.BOX)
