"""Rows to input tensors: the shapes and types of the public contract, batch dimension first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image_client.errors import InvalidRequest
from qwen_image_client.guidance import NO_GUIDANCE
from qwen_image_client.request import GenerationRequest

INPUT_TYPES: Mapping[str, type[np.generic]] = {
    "prompt": np.object_,
    "negative_prompt": np.object_,
    "height": np.int32,
    "width": np.int32,
    "num_inference_steps": np.int32,
    "true_cfg_scale": np.float32,
    "seed": np.int64,
    "sigmas": np.float32,
    "input_image": np.object_,
    "strength": np.float32,
    "mask_image": np.object_,
}
_SAME_IN_ALL_ROWS = ("height", "width")
_PICTURES = ("input_image", "mask_image")
_NO_PICTURE = b""


def input_tensors(rows: Sequence[GenerationRequest]) -> dict[str, NDArray[Any]]:
    """The tensors of one request: [B, 1] each, sigmas [B, steps], input_image [B, pictures]; what every row leaves
    out is absent.

    Raises:
        InvalidRequest: the rows can't share a request, and why.
    """
    if not rows:
        raise InvalidRequest("a request needs at least one image to make")
    rows = _with_guidance_for_each(rows)
    columns = {name: _column(name, rows) for name in INPUT_TYPES}
    return {name: _tensor(name, column) for name, column in columns.items() if column is not None}


def _column(name: str, rows: Sequence[GenerationRequest]) -> list[Any] | None:
    values = [getattr(row, name) for row in rows]
    missing = values.count(None)
    if missing == len(values):
        return None
    if name in _PICTURES:
        return _padded(values)
    if missing:
        raise InvalidRequest(f"{name} is given for some of the {len(rows)} rows: give it for all of them or for none")
    if name in _SAME_IN_ALL_ROWS and len(set(values)) > 1:
        raise InvalidRequest(f"{name} differs between the rows of one request ({sorted(set(values))}): send one a size")
    if name == "sigmas" and len({len(row) for row in values}) > 1:
        raise InvalidRequest("sigmas differ in length between the rows of one request: send one a length")
    return values


def _padded(values: Sequence[tuple[bytes, ...] | bytes | None]) -> list[tuple[bytes, ...]]:
    """Rows with as many pictures as the one with most: an empty element is no picture."""
    rows = [(value,) if isinstance(value, bytes) else value or () for value in values]
    longest = max(map(len, rows))
    return [row + (_NO_PICTURE,) * (longest - len(row)) for row in rows]


def _tensor(name: str, column: list[Any]) -> NDArray[Any]:
    values = [value.encode() if isinstance(value, str) else value for value in column]
    return np.array(values, dtype=INPUT_TYPES[name]).reshape(len(values), -1)


def _with_guidance_for_each(rows: Sequence[GenerationRequest]) -> Sequence[GenerationRequest]:
    """Rows with and without a negative prompt share a request: those without get an empty one at scale 1."""
    if len({row.negative_prompt is None for row in rows}) == 1:
        return rows
    if any(row.negative_prompt is not None and row.true_cfg_scale is None for row in rows):
        raise InvalidRequest(
            "some rows of the request have a negative_prompt and some don't: give true_cfg_scale for those that have"
        )
    return [
        row if row.negative_prompt is not None else replace(row, negative_prompt="", true_cfg_scale=NO_GUIDANCE)
        for row in rows
    ]
