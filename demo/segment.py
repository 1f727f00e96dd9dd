"""From pixels to regions: the background's shade, what differs from it, and its connected parts. numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.float64]  # (H, W, 3), 0 to 255
Mask = NDArray[np.bool_]

_DIFFERENT = 45.0
_OUTLIER = 40.0


def background_of(pixels: Pixels) -> Pixels:
    """The background behind everything, linear from top to bottom, read off the picture's frame."""
    height, width, _ = pixels.shape
    frame = np.ones((height, width), bool)
    frame[3:-3, 3:-3] = False
    rows, _ = np.nonzero(frame)
    terms, shades = np.stack([np.ones(len(rows)), rows / height], axis=1), pixels[frame]
    keep = np.linalg.norm(shades - np.median(shades, axis=0), axis=1) < 1e9
    for _ in range(4):
        slope = np.linalg.lstsq(terms[keep], shades[keep], rcond=None)[0]
        errors = np.linalg.norm(shades - terms @ slope, axis=1)
        keep = errors <= max(_OUTLIER, float(np.median(errors)))
    column = np.stack([np.ones(height), np.arange(height) / height], axis=1) @ slope
    return np.broadcast_to(column[:, None, :], pixels.shape)


def foreground_of(pixels: Pixels) -> Mask:
    different: Mask = np.linalg.norm(pixels - background_of(pixels), axis=2) > _DIFFERENT
    return different


def components(mask: Mask, smallest: float) -> list[Mask]:
    """The connected parts (edges joined, not corners) of at least this share of the picture, largest first."""
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        grown = np.pad(labels, 1)
        grown = np.maximum.reduce([labels, grown[:-2, 1:-1], grown[2:, 1:-1], grown[1:-1, :-2], grown[1:-1, 2:]])
        grown = np.where(mask, grown, 0)
        if np.array_equal(grown, labels):
            break
        labels = grown
    names, counts = np.unique(labels[mask], return_counts=True)
    large = [(count, name) for name, count in zip(names, counts, strict=True) if count >= smallest * mask.size]
    return [labels == name for _, name in sorted(large, reverse=True)]


def bounds(mask: Mask) -> tuple[int, int, int, int]:
    """top, left, bottom, right of the mask's pixels; the last two lie outside."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def eroded(mask: Mask, steps: int) -> Mask:
    """The mask without its rim, or as much of the rim removed as leaves something."""
    for _ in range(steps):
        padded = np.pad(mask, 1)
        inner = mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        if not inner.any():
            return mask
        mask = inner
    return mask
