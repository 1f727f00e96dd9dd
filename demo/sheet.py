"""Pictures about pictures: contact sheets with captions, and loss curves. Needs Pillow alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

_CAPTION_PX = 34
_GAP = 6


def contact_sheet(images: Sequence[Image.Image], captions: Sequence[str], columns: int = 8) -> Image.Image:
    """The images in a grid, each above its caption."""
    cell_width = max(image.width for image in images) + _GAP
    cell_height = max(image.height for image in images) + _GAP + _CAPTION_PX
    rows = math.ceil(len(images) / columns)
    sheet = Image.new("RGB", (columns * cell_width + _GAP, rows * cell_height + _GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(9)
    for i, (image, text) in enumerate(zip(images, captions, strict=True)):
        left, top = _GAP + i % columns * cell_width, _GAP + i // columns * cell_height
        sheet.paste(image, (left, top))
        lines = textwrap.wrap(text, width=cell_width // 5)[:3]
        draw.text((left, top + image.height + 1), "\n".join(lines), fill="black", font=font, spacing=1)
    return sheet


def loss_curve(losses: Sequence[float], title: str, width: int = 720, height: int = 360) -> Image.Image:
    """Losses against steps, both axes logarithmic."""
    picture = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(11)
    draw.text((10, 6), title, fill="black", font=font)
    if len(losses) < 2:
        return picture
    low, high = math.log(min(losses)), math.log(max(losses))
    span, last = max(high - low, 1e-9), math.log(len(losses))
    inner_width, inner_height = width - 80, height - 60
    points = [
        (60 + inner_width * math.log(i + 1) / last, 30 + inner_height * (high - math.log(loss)) / span)
        for i, loss in enumerate(losses)
    ]
    draw.rectangle((60, 30, 60 + inner_width, 30 + inner_height), outline="gray")
    draw.line(points, fill="blue", width=2)
    for value, y in ((high, 30), (low, 24 + inner_height)):
        draw.text((6, y), f"{math.exp(value):.4f}", fill="black", font=font)
    draw.text((60 + inner_width - 40, height - 22), str(len(losses)), fill="black", font=font)
    return picture
