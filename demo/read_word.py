"""Which word or number a picture says: letters cut apart at their gaps, each matched against true glyphs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demo.glyphs import glyph_mask
from demo.segment import Mask, Pixels, background_of, bounds, components, foreground_of

Coverage = NDArray[np.float64]  # (H, W), 0 to 1

_SMALLEST = 0.0015
_INKED = 0.4
_HEIGHT, _WIDTH = 24, 28
_TOO_WIDE = 1.1  # of the letters' height: two letters run together


def read_word(image: Image.Image, alphabet: str, on_board: bool = False) -> str:
    """The text in the picture, of the alphabet's characters; on a sign the board is looked for first."""
    pixels = np.asarray(image.convert("RGB"), np.float64)
    ground = background_of(pixels)
    if on_board:
        boards = components(foreground_of(pixels), 0.03)
        if not boards:
            return ""
        pixels, ground = _inside_board(pixels, boards[0])
    coverage = _ink_coverage(pixels, ground)
    return "".join(_match(glyph, alphabet) for glyph in _glyphs(coverage))


def _inside_board(pixels: Pixels, board: Mask) -> tuple[Pixels, Pixels]:
    """The board's rectangle with its round corners painted over, and its plain colour."""
    top, left, bottom, right = bounds(board)
    colour = np.median(pixels[board], axis=0)
    inside, margin = pixels[top:bottom, left:right].copy(), 3
    inside = inside[margin:-margin, margin:-margin]
    for rows in (slice(0, 3), slice(-3, None)):
        for columns in (slice(0, 3), slice(-3, None)):
            inside[rows, columns] = colour
    return inside, np.broadcast_to(colour, inside.shape)


def _ink_coverage(pixels: Pixels, ground: Pixels) -> Coverage:
    """How much of each pixel is ink, by where it lies between the ground's colour and the ink's."""
    difference = pixels - ground
    strength = np.linalg.norm(difference, axis=2)
    strong = strength > max(60.0, 0.6 * float(strength.max(initial=0.0)))
    if not strong.any():
        return np.zeros(strength.shape)
    ink = np.median(pixels[strong], axis=0) - ground
    coverage: Coverage = ((difference * ink).sum(axis=2) / (ink * ink).sum(axis=2)).clip(0, 1)
    return _without_specks(coverage)


def _without_specks(coverage: Coverage) -> Coverage:
    parts = components(coverage > _INKED, _SMALLEST)
    kept = np.logical_or.reduce(parts) if parts else np.zeros(coverage.shape, bool)
    grown = np.pad(kept, 1)
    near = grown[:-2, 1:-1] | grown[2:, 1:-1] | grown[1:-1, :-2] | grown[1:-1, 2:] | kept
    return np.where(near, coverage, 0.0)


def _glyphs(coverage: Coverage) -> list[Coverage]:
    """The letters from left to right."""
    inked = coverage > _INKED
    if not inked.any():
        return []
    top, _, bottom, _ = bounds(inked)
    columns = np.flatnonzero(np.diff(np.pad(inked.any(axis=0).astype(int), 1)))
    pieces: list[Coverage] = []
    for left, right in columns.reshape(-1, 2).tolist():
        pieces += _split(coverage[top:bottom, left:right])
    return [piece for piece in pieces if (piece > _INKED).any()]


def _split(run: Coverage) -> list[Coverage]:
    """A run of columns, cut at its thinnest places where it is too wide for one letter."""
    height, width = run.shape
    if width <= _TOO_WIDE * height:
        return [run]
    low, high = round(0.4 * height), min(width - round(0.4 * height), round(1.1 * height))
    if high <= low:
        return [run]
    cut = low + int(np.argmin(run[:, low:high].sum(axis=0)))
    return [run[:, :cut], *_split(run[:, cut:])]


def _match(glyph: Coverage, alphabet: str) -> str:
    top, left, bottom, right = bounds(glyph > _INKED)
    seen = _framed(Image.fromarray((glyph[top:bottom, left:right] * 255).round().astype(np.uint8)))
    return min(alphabet, key=lambda character: float(np.abs(seen - _template(character)).sum()))


@lru_cache(maxsize=64)
def _template(character: str) -> Coverage:
    return _framed(glyph_mask(character, 48))


def _framed(mask: Image.Image) -> Coverage:
    """The glyph at one height, in its own proportions, in the middle of a frame."""
    width = min(_WIDTH, max(1, round(mask.width * _HEIGHT / mask.height)))
    frame = Image.new("L", (_WIDTH, _HEIGHT))
    frame.paste(mask.resize((width, _HEIGHT), Image.Resampling.BILINEAR), ((_WIDTH - width) // 2, 0))
    return np.asarray(frame, np.float64) / 255
