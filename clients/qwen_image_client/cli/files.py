"""The files that a command reads and writes: input images and masks, patterns of names, nothing overwritten."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import Formatter
from typing import Any

from PIL import Image

from qwen_image_client import GeneratedImage, InvalidRequest
from qwen_image_client.integration import encode_image, slug

DEFAULT_NAME = "{prompt}-seed{seed}.png"
_PLACEHOLDERS = {"prompt", "seed", "index"}


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The input images and the mask, read.

    Attributes:
        names: of the images in order, then of the mask, if there is one.
    """

    images: tuple[bytes, ...] = ()
    mask: bytes | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, images: Sequence[Path] | None, mask: Path | None) -> "InputFiles":
        """Reads them all.

        Raises:
            OSError: a file can't be read; the error names it.
            InvalidRequest: a file is empty.
        """
        images = images or ()
        return cls(
            images=tuple(encode_image("--image", path) for path in images),
            mask=None if mask is None else encode_image("--mask", mask),
            names=tuple(str(path) for path in (*images, *([] if mask is None else [mask]))),
        )

    def as_arguments(self, command: str) -> dict[str, Any]:
        """The arguments of the client's method of that name that they are."""
        if command == "edit":
            return {"images": self.images}
        given = {"image": self.images[0] if self.images else None, "mask_image": self.mask}
        return {name: content for name, content in given.items() if content is not None}

    def name_in(self, error: InvalidRequest) -> InvalidRequest:
        """The error with files by name, where the server counts them."""
        message = error.message
        for position, name in enumerate(self.names):
            is_mask = position == len(self.images)
            counted = r"mask_image of row \d+" if is_mask else rf"input_image {position} of row \d+"
            message = re.sub(counted, name.replace("\\", r"\\"), message)
        return InvalidRequest(message, request_id=error.request_id, status=error.status)


def complete_pattern(output: str, num_images: int) -> str:
    """`output` as a pattern for every image: a folder gets the default name, several images get their seed.

    Raises:
        InvalidRequest: an unknown placeholder, or a name that isn't a PNG's.
    """
    if output.endswith("/") or Path(output).is_dir():
        return f"{output.rstrip('/')}/{DEFAULT_NAME}" if output.rstrip("/") else f"/{DEFAULT_NAME}"
    unknown = _placeholders(output) - _PLACEHOLDERS
    if unknown:
        raise InvalidRequest(f"--output {output}: {unknown} must be of {_PLACEHOLDERS}")
    if not output.lower().endswith(".png"):
        raise InvalidRequest(f"--output {output} must end in .png, or in / for a folder")
    if num_images > 1 and not _placeholders(output) & {"seed", "index"}:
        return f"{output[:-4]}-seed{{seed}}{output[-4:]}"
    return output


def _placeholders(pattern: str) -> set[str]:
    try:
        return {field for _, field, _, _ in Formatter().parse(pattern) if field is not None}
    except ValueError as error:
        raise InvalidRequest(f"--output {pattern}: {error}") from error


def prepare_folder(pattern: str) -> None:
    """Finds out before the work begins whether its folder can be had; one named after the image comes later.

    Raises:
        InvalidRequest: the pattern can't be filled in.
        OSError: the folder can't be made.
    """
    try:
        pattern.format(prompt="", seed=0, index=0)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"--output {pattern}: {error}") from error
    folder = Path(pattern).parent
    if not _placeholders(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)


def prepare_mask_name(path: Path | None) -> Path | None:
    """`path`, whose folder is made.

    Raises:
        InvalidRequest: the name isn't a PNG's.
        OSError: the folder can't be made.
    """
    if path is None:
        return None
    if path.suffix.lower() != ".png":
        raise InvalidRequest(f"--save-mask {path} must end in .png: other formats blur it")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def save(image: GeneratedImage, pattern: str, index: int) -> Path:
    """Writes the image where the pattern says, or beside it as -2, -3, ... if a file is there.

    Args:
        index: the image's place in the call, from 1.
    """
    wanted = Path(pattern.format(prompt=slug(image.recipe.prompt), seed=image.seed, index=index))
    wanted.parent.mkdir(parents=True, exist_ok=True)
    return _write_beside(wanted, image.save)


def save_mask(mask: Image.Image, wanted: Path) -> Path:
    """Writes the mask there, or beside it as `save` does."""

    def write(path: Path) -> Path:
        with path.open("xb") as file:
            mask.save(file, "PNG")
        return path

    return _write_beside(wanted, write)


def _write_beside(wanted: Path, write: Callable[[Path], Path]) -> Path:
    for attempt in count(1):
        path = wanted if attempt == 1 else wanted.with_name(f"{wanted.stem}-{attempt}{wanted.suffix}")
        try:
            return write(path)
        except FileExistsError:
            continue
    raise AssertionError("unreachable: count() doesn't end")
