"""The pictures of a public request: decoded once, checked, brought to the sizes in which the models want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from qwen_image.errors import InvalidRequest
from qwen_image.families import Edit, Family
from qwen_image.params import Limits
from qwen_image.pictures import (
    PictureLimits,
    fitted_size,
    fitted_within,
    mask_array,
    packed,
    pixels,
    read_mask,
    read_picture,
    resized,
)
from qwen_image.serving.tensors import optional_array

Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True)
class RowPictures:
    """What one row brought along."""

    pictures: tuple[Image, ...] = ()
    mask: Image | None = None


@dataclass(frozen=True, slots=True)
class PictureReader:
    """For one checkpoint. `edit` None: a row may bring one picture to start from, and a mask."""

    family: Family
    edit: Edit | None
    limits: Limits
    default_size: Size

    def read(self, request: Any, rows: int) -> list[RowPictures]:
        """One a row. InvalidRequest names the picture by row and position."""
        images, masks = optional_array(request, "input_image"), optional_array(request, "mask_image")
        limits = PictureLimits(max_bytes=self.limits.max_image_bytes, max_pixels=self.limits.max_image_pixels)
        return [
            RowPictures(
                pictures=() if images is None else self._pictures(images[row], row, limits),
                mask=None if masks is None else self._mask(masks[row, 0], row, limits, images),
            )
            for row in range(rows)
        ]

    def size(self, rows: Sequence[RowPictures]) -> Size:
        """(width, height) of the result where the request names none: that of the last picture, in shape."""
        sizes = dict.fromkeys(self._row_size(row) for row in rows)
        if len(sizes) > 1:
            described = ", ".join(f"{width}x{height}" for width, height in sizes)
            raise InvalidRequest(
                f"the rows' pictures ask for results of different sizes ({described}): rows of one request share their "
                "size; give height and width, or send them as requests of their own"
            )
        return next(iter(sizes))

    def reference_sizes(self, row: RowPictures) -> list[Size]:
        """(width, height) of the pictures that an edit looks at, as the VAE sees them.

        InvalidRequest for one so long that a side of it is over the limit.
        """
        if self.edit is None:
            return []
        sizes = [self._fitted(picture, self.edit.reference_area) for picture in row.pictures]
        for picture, size in zip(row.pictures, sizes, strict=True):
            if max(size) > self.limits.max_side:
                raise InvalidRequest(
                    f"a picture of {picture.width}x{picture.height} would be seen as {size[0]}x{size[1]}; a side may "
                    f"have {self.limits.max_side} pixels at most: crop it to a less long shape"
                )
        return sizes

    def _row_size(self, row: RowPictures) -> Size:
        if not row.pictures:
            return self.default_size
        if self.edit is not None:
            return self.reference_sizes(row)[-1]
        width, height = self.default_size
        area, multiple = min(width * height, self.limits.max_pixels), self.family.size_multiple
        return fitted_within(self.limits.max_side, area, *row.pictures[-1].size, multiple)

    def _fitted(self, picture: Image, area: int) -> Size:
        assert self.edit is not None
        return fitted_size(area, *picture.size, self.edit.side_multiple)

    def _pictures(self, files: NDArray[np.object_], row: int, limits: PictureLimits) -> tuple[Image, ...]:
        found = [(position, bytes(file)) for position, file in enumerate(files) if file]
        most = self.edit.max_images if self.edit else 1
        if len(found) > most or (self.edit is not None and not found):
            raise InvalidRequest(
                f"input_image of row {row} has {len(found)} pictures; a {self.family.pipeline_class} takes "
                f"{'1' if self.edit else '0'} to {most}"
            )
        return tuple(read_picture(file, f"input_image {position} of row {row}", limits) for position, file in found)

    def _mask(self, file: bytes, row: int, limits: PictureLimits, images: Any) -> Image | None:
        if not file:
            return None
        if images is None or not any(images[row]):
            raise InvalidRequest(f"mask_image of row {row} comes without input_image: send the picture that it masks")
        return read_mask(bytes(file), f"mask_image of row {row}", limits)

    def references(self, rows: Sequence[RowPictures], size: Size) -> NDArray[np.object_]:
        """(B, N) packed pixels for the VAE: an edit's references, or the picture to start from at the result's size."""
        return _column_of_packed(
            [
                [
                    resized(picture, *each)
                    for picture, each in zip(
                        row.pictures, self.reference_sizes(row) or [size] * len(row.pictures), strict=True
                    )
                ]
                for row in rows
            ]
        )

    def conditions(self, rows: Sequence[RowPictures]) -> NDArray[np.object_]:
        """(B, N) packed pixels for the text encoder, which sees the pictures of edits only."""
        if self.edit is None:
            return _column_of_packed([[] for _ in rows])
        area = self.edit.condition_area
        return _column_of_packed(
            [[resized(picture, *self._fitted(picture, area)) for picture in row.pictures] for row in rows]
        )


def kept_and_mask(rows: Sequence[RowPictures], size: Size) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What inpainting keeps, (B, H, W, 3), and where it may paint, (B, H, W): 255, or 0 where it keeps.

    Of one pixel each where no row has a mask: all may be painted.
    """
    width, height = size if any(row.mask for row in rows) else (1, 1)
    kept = np.zeros((len(rows), height, width, 3), np.uint8)
    mask = np.full((len(rows), height, width), 255, np.uint8)
    for position, row in enumerate(rows):
        if row.mask is not None:
            kept[position] = pixels(resized(row.pictures[0], width, height))
            mask[position] = mask_array(row.mask, width, height)
    return kept, mask


def _column_of_packed(rows: Sequence[Sequence[Image]]) -> NDArray[np.object_]:
    """Rows padded with empty elements to the longest, of one at least, so that no tensor on its way is empty."""
    longest = max(1, *map(len, rows))
    column = np.full((len(rows), longest), b"", np.object_)
    for position, pictures in enumerate(rows):
        for index, picture in enumerate(pictures):
            column[position, index] = packed(pixels(picture))
    return column
