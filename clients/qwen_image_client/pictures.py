"""The pictures that go along with a request: files as they are, PIL images as PNG."""

import hashlib
from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from qwen_image_client.errors import InvalidRequest

Picture: TypeAlias = bytes | str | PathLike[str] | Image.Image
"""A PNG, JPEG or WebP file's content or path, or an image of PIL."""


def encoded(name: str, value: object) -> bytes:
    """The file that carries one picture; whether the server can read it is the server's to say.

    Raises:
        OSError: the file can't be read; the error names it.
        InvalidRequest: `value` is no picture, or empty, which on the wire would mean that there is none.
    """
    if isinstance(value, Image.Image):
        return _png(value)
    if isinstance(value, str | PathLike):
        name, value = f"{name} {value}", Path(value).read_bytes()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidRequest(
            f"{name} must be the content or the path of a PNG, JPEG or WebP file or an image of PIL, "
            f"not {type(value).__name__}"
        )
    if len(value) == 0:
        raise InvalidRequest(f"{name} is empty")
    return bytes(value)


def all_encoded(name: str, value: object) -> tuple[bytes, ...]:
    """The files of one picture or of several, of one at least."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        return (encoded(name, value),)
    if not value:
        raise InvalidRequest(f"{name} holds no picture")
    return tuple(encoded(f"{name}[{index}]", picture) for index, picture in enumerate(value))


def sha256(content: bytes) -> str:
    """What a recipe keeps of a picture: enough to tell whether a file is the one."""
    return hashlib.sha256(content).hexdigest()


def _png(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
