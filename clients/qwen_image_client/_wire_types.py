"""What one value of an input may be on the wire: text, numbers, image files.

Types are checked here, ranges by the server.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from qwen_image_client._errors import InvalidRequest
from qwen_image_contract import Input

Picture: TypeAlias = bytes | str | PathLike[str] | Image.Image
"""A PNG, JPEG or WebP file's content or path, or an image of PIL."""


def text(name: str, value: object) -> str:
    """`value` as text that UTF-8 can carry."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text (str), not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name} can't be encoded as UTF-8: {error.reason} at {error.start}") from error
    return value


def int32(name: str, value: object) -> int:
    """`value` as an int that INT32 can hold; bools and floats are refused, not converted."""
    return _integer(name, value, np.iinfo(np.int32))


def int64(name: str, value: object) -> int:
    """`value` as an int that INT64 can hold; bools and floats are refused, not converted."""
    return _integer(name, value, np.iinfo(np.int64))


def _integer(name: str, value: object, limits: "np.iinfo[Any]") -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidRequest(f"{name}={value!r} must be an integer, not {type(value).__name__}")
    if not limits.min <= int(value) <= limits.max:
        raise InvalidRequest(f"{name}={value} is out of INT{limits.bits}'s range, {limits.min} to {limits.max}")
    return int(value)


def real(name: str, value: object) -> float:
    """`value` as a float that FP32 can hold; NaN and infinity travel, and the server refuses them."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidRequest(f"{name}={value!r} must be a number, not {type(value).__name__}")
    if np.isfinite(float(value)) and abs(float(value)) > np.finfo(np.float32).max:
        raise InvalidRequest(f"{name}={value} doesn't fit FP32")
    return float(value)


def reals(name: str, value: object) -> tuple[float, ...]:
    """`value` as at least one number."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise InvalidRequest(f"{name}={value!r} must be a sequence of numbers")
    numbers = tuple(real(f"{name}[{index}]", item) for index, item in enumerate(value))
    if not numbers:
        raise InvalidRequest(f"{name} must hold at least one number; leave it out for the scheduler's own")
    return numbers


def encode_image(name: str, value: object) -> bytes:
    """The file that carries one image; the server checks whether it can be read.

    Raises:
        OSError: the file can't be read; the error names it.
        InvalidRequest: `value` is no image, or empty, which on the wire would mean that there is none.
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


def encode_images(name: str, value: object) -> tuple[bytes, ...]:
    """The files of one image or of several, of one at least."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        return (encode_image(name, value),)
    if not value:
        raise InvalidRequest(f"{name} holds no picture")
    return tuple(encode_image(f"{name}[{index}]", image) for index, image in enumerate(value))


_CONVERTERS: Mapping[str, Callable[[str, object], object]] = {
    "BYTES": text,
    "INT32": int32,
    "INT64": int64,
    "FP32": real,
}
_LIST_CONVERTERS: Mapping[str, Callable[[str, object], object]] = {"FP32": reals}


def converter_of(each: Input) -> Callable[[str, object], object]:
    """What turns a value, given its name, into one of this input, or raises InvalidRequest."""
    if each.is_image:
        return encode_image if each.elements == 1 else encode_images
    return (_CONVERTERS if each.elements == 1 else _LIST_CONVERTERS)[each.datatype]


def sha256(content: bytes) -> str:
    """What a recipe keeps of an image's file: enough to recognize the file."""
    return hashlib.sha256(content).hexdigest()


def _png(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
