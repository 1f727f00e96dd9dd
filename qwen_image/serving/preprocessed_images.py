"""The pictures of a public request at the sizes in which the models see them, decoded one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qwen_image.images import mask_array, packed, pixels, read_mask, read_picture, resized, unpacked
from qwen_image.serving.input_images import PictureFile, PictureReader, RowPictures, Size


def picture_outputs(reader: PictureReader, rows: Sequence[RowPictures], size: Size) -> dict[str, NDArray[np.generic]]:
    """What the validator passes on, by tensor name. `size` is the result's, (width, height).

    Decoded, a picture may have 50 MB: two are never held at a time, and a file that comes several times is decoded
    once. InvalidRequest for one that does not decode.
    """
    seen: dict[bytes, list[bytes]] = {}
    for row in rows:
        for picture in row.pictures:
            if picture.data not in seen:
                seen[picture.data] = _seen(reader, picture, size)
    by_row = [[seen[picture.data] for picture in row.pictures] for row in rows]
    kept, mask = _kept_and_mask(reader, rows, [pictures[0][0] if pictures else b"" for pictures in by_row], size)
    return {
        "pictures": _column([[sizes[0] for sizes in pictures] for pictures in by_row]),
        "condition_pictures": _column(
            [[condition for _, *more in pictures for condition in more] for pictures in by_row]
        ),
        "kept_image": kept,
        "paint_mask": mask,
        "mask": mask,
    }


def _seen(reader: PictureReader, file: PictureFile, result: Size) -> list[bytes]:
    picture = read_picture(file.data, file.name, reader.picture_limits)
    return [packed(pixels(resized(picture, *each))) for each in reader.seen_sizes(file, result)]


def _kept_and_mask(
    reader: PictureReader, rows: Sequence[RowPictures], starts: Sequence[bytes], size: Size
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What inpainting keeps, (B, H, W, 3), and where it may paint, (B, H, W): 255, or 0 where it keeps.

    Of one pixel each where no row has a mask: all may be painted.
    """
    width, height = size if any(row.mask for row in rows) else (1, 1)
    kept = np.zeros((len(rows), height, width, 3), np.uint8)
    mask = np.full((len(rows), height, width), 255, np.uint8)
    drawn: dict[bytes, NDArray[np.uint8]] = {}
    for position, (row, start) in enumerate(zip(rows, starts, strict=True)):
        if row.mask is None:
            continue
        if row.mask.data not in drawn:
            drawn[row.mask.data] = mask_array(read_mask(row.mask.data, row.mask.name, reader.picture_limits), *size)
        kept[position], mask[position] = unpacked(start), drawn[row.mask.data]
    return kept, mask


def _column(rows: Sequence[Sequence[bytes]]) -> NDArray[np.object_]:
    """(B, N): rows padded with empty elements to the longest, of one at least: no tensor on its way may be empty."""
    longest = max(1, *map(len, rows))
    column = np.full((len(rows), longest), b"", np.object_)
    for position, pictures in enumerate(rows):
        column[position, : len(pictures)] = pictures
    return column
