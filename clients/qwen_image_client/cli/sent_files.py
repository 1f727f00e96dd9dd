"""The files that a command sends along, and their names in what the server says of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwen_image_client.errors import InvalidRequest
from qwen_image_client.pictures import encoded


@dataclass(frozen=True, slots=True)
class SentFiles:
    """The pictures and the mask, read.

    Attributes:
        names: of the pictures in order, then of the mask, if there is one.
    """

    pictures: tuple[bytes, ...] = ()
    mask: bytes | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, images: Sequence[Path] | None, mask: Path | None) -> "SentFiles":
        """Reads them all.

        Raises:
            OSError: a file can't be read; the error names it.
            InvalidRequest: a file is empty.
        """
        images = images or ()
        return cls(
            pictures=tuple(encoded("--image", path) for path in images),
            mask=None if mask is None else encoded("--mask", mask),
            names=tuple(str(path) for path in (*images, *([] if mask is None else [mask]))),
        )

    def as_arguments(self, command: str) -> dict[str, Any]:
        """The arguments of the client's method of that name that they are."""
        if command == "edit":
            return {"images": self.pictures}
        given = {"image": self.pictures[0] if self.pictures else None, "mask_image": self.mask}
        return {name: content for name, content in given.items() if content is not None}

    def named_in(self, error: InvalidRequest) -> InvalidRequest:
        """The error with files by name, where the server counts them."""
        message = error.message
        for position, name in enumerate(self.names):
            is_mask = position == len(self.pictures)
            counted = r"mask_image of row \d+" if is_mask else rf"input_image {position} of row \d+"
            message = re.sub(counted, name.replace("\\", r"\\"), message)
        return InvalidRequest(message, request_id=error.request_id, status=error.status)
