"""The pictures of a public request: checked before any is decoded, and of which sizes the models will see them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest
from qwen_image.families import Edit, Family
from qwen_image.images import PictureLimits, checked_size, fitted_size, fitted_within
from qwen_image.serving.tensors import optional_array
from qwen_image_contract import Limits

Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file that is within the limits; its pixels are not decoded."""

    data: bytes
    name: str  # in errors
    size: Size  # of the picture upright


@dataclass(frozen=True, slots=True)
class RowPictures:
    """What one row brought along."""

    pictures: tuple[PictureFile, ...] = ()
    mask: PictureFile | None = None


@dataclass(frozen=True, slots=True)
class PictureReader:
    """For one checkpoint. `edit` None: a row may bring one picture to start from, and a mask."""

    family: Family
    edit: Edit | None
    limits: Limits
    default_size: Size

    @property
    def picture_limits(self) -> PictureLimits:
        return PictureLimits(max_bytes=self.limits.max_image_bytes, max_pixels=self.limits.max_image_pixels)

    def read(self, request: Any, rows: int) -> list[RowPictures]:
        """One a row. InvalidRequest names the picture by row and position."""
        images, masks = optional_array(request, "input_image"), optional_array(request, "mask_image")
        return [
            RowPictures(
                pictures=() if images is None else self._pictures(images[row], row),
                mask=None if masks is None else self._mask(masks[row, 0], row, images),
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

    def checked_size(self, rows: Sequence[RowPictures], sides: Set[str]) -> dict[str, int]:
        """`size` by name. InvalidRequest if one of these sides would be out of range: its caller gave a picture, and
        no such number."""
        size = dict(zip(("width", "height"), self.size(rows), strict=True))
        lowest, highest = self.limits.min_side, self.limits.max_side
        if any(row.pictures for row in rows) and not all(lowest <= size[side] <= highest for side in sides):
            picture = next(row.pictures[-1] for row in rows if row.pictures)
            raise InvalidRequest(
                f"{picture.name} is {picture.size[0]}x{picture.size[1]}: a result of its shape would be "
                f"{size['width']}x{size['height']}, and a side may have {lowest} to {highest} pixels; crop the picture "
                f"to a less long shape, or give height and width, multiples of {self.family.size_multiple}"
            )
        return size

    def reference_sizes(self, row: RowPictures) -> list[Size]:
        """(width, height) of the pictures that an edit looks at, as the VAE sees them.

        InvalidRequest for one so long that a side of it is over the limit.
        """
        return [] if self.edit is None else [self._reference_size(self.edit, picture) for picture in row.pictures]

    def seen_sizes(self, picture: PictureFile, result: Size) -> tuple[Size, ...]:
        """(width, height) for the VAE, and of an edit's picture also for the text encoder."""
        if self.edit is None:
            return (result,)
        condition = fitted_size(self.edit.condition_area, *picture.size, self.edit.side_multiple)
        return (self._reference_size(self.edit, picture), condition)

    def _row_size(self, row: RowPictures) -> Size:
        if not row.pictures:
            return self.default_size
        if self.edit is not None:
            return self.reference_sizes(row)[-1]
        width, height = self.default_size
        area, multiple = min(width * height, self.limits.max_pixels), self.family.size_multiple
        return fitted_within(self.limits.max_side, area, *row.pictures[-1].size, multiple)

    def _reference_size(self, edit: Edit, picture: PictureFile) -> Size:
        size = fitted_size(edit.reference_area, *picture.size, edit.side_multiple)
        if max(size) > self.limits.max_side:
            raise InvalidRequest(
                f"a picture of {picture.size[0]}x{picture.size[1]} would be seen as {size[0]}x{size[1]}; a side may "
                f"have {self.limits.max_side} pixels at most: crop it to a less long shape"
            )
        return size

    def _pictures(self, files: NDArray[np.object_], row: int) -> tuple[PictureFile, ...]:
        found = [(position, file) for position, file in enumerate(files) if file]
        most = self.edit.max_images if self.edit else 1
        if len(found) > most or (self.edit is not None and not found):
            raise InvalidRequest(
                f"input_image of row {row} has {len(found)} pictures; a {self.family.pipeline_class} takes "
                f"{'1' if self.edit else '0'} to {most}"
            )
        return tuple(self._checked(file, f"input_image {position} of row {row}") for position, file in found)

    def _mask(self, file: bytes, row: int, images: Any) -> PictureFile | None:
        if not file:
            return None
        if images is None or not any(images[row]):
            raise InvalidRequest(f"mask_image of row {row} comes without input_image: send the picture that it masks")
        return self._checked(file, f"mask_image of row {row}")

    def _checked(self, file: bytes, name: str) -> PictureFile:
        data = bytes(file)
        return PictureFile(data, name, checked_size(data, name, self.picture_limits))
