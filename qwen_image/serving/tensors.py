"""Numpy arrays out of a Triton request and into a response, with what arrived checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest


def optional_array(request: Any, name: str) -> NDArray[Any] | None:
    """An input as an array, None if it was left out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def array(request: Any, name: str) -> NDArray[Any]:
    """An input that Triton has made sure is there."""
    found = optional_array(request, name)
    assert found is not None, name
    return found


def text_column(request: Any, name: str) -> list[str] | None:
    """A BYTES input of shape (B, 1) as strings, None if it was left out. InvalidRequest unless it is UTF-8."""
    values = optional_array(request, name)
    if values is None:
        return None
    return [_decoded(name, row, value) for row, value in enumerate(values.reshape(-1))]


def response(**arrays: NDArray[Any]) -> Any:
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in arrays.items()])


def strings(values: list[str]) -> NDArray[np.object_]:
    """A BYTES output of shape (B, 1)."""
    return np.array([value.encode() for value in values], dtype=np.object_).reshape(-1, 1)


def _decoded(name: str, row: int, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{name} of row {row} is not valid UTF-8: byte 0x{value[error.start]:02x} at position {error.start}; "
            "send text as UTF-8"
        ) from error
