"""What one value of an input may be on the wire. Ranges are the server's business; types are ours."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from qwen_image_client.errors import InvalidRequest


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
