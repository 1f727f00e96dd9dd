"""Rows to input tensors, and output tensors to images: the public contract's shapes and types, batch first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qwen_image_client._call import Task, Tensors
from qwen_image_client._errors import InvalidRequest
from qwen_image_client._options import NO_GUIDANCE
from qwen_image_client._request import GenerationRequest

Output: TypeAlias = Literal["image", "latents", "mask"]
Number = TypeVar("Number", int, float)

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
_IMAGES = ("input_image", "mask_image")
_NO_IMAGE = b""
STEP = "step"
USED_OUTPUTS = ("used_seed", "used_num_inference_steps", "used_true_cfg_scale", "used_width", "used_height")
_ALL_WHITE = 255


def make_input_tensors(rows: Sequence[GenerationRequest]) -> dict[str, NDArray[Any]]:
    """The tensors of one request: [B, 1] each, sigmas [B, steps], input_image [B, images]; what every row leaves
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
    if name in _IMAGES:
        return _padded(values)
    if missing:
        raise InvalidRequest(f"{name} is given for some of the {len(rows)} rows: give it for all of them or for none")
    if name in _SAME_IN_ALL_ROWS and len(set(values)) > 1:
        raise InvalidRequest(f"{name} differs between the rows of one request ({sorted(set(values))}): send one a size")
    if name == "sigmas" and len({len(row) for row in values}) > 1:
        raise InvalidRequest("sigmas differ in length between the rows of one request: send one a length")
    return values


def _padded(values: Sequence[tuple[bytes, ...] | bytes | None]) -> list[tuple[bytes, ...]]:
    """Rows with as many images as the one with most: an empty element is no image."""
    rows = [(value,) if isinstance(value, bytes) else value or () for value in values]
    longest = max(map(len, rows))
    return [row + (_NO_IMAGE,) * (longest - len(row)) for row in rows]


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


def choose_outputs(
    outputs: Sequence[Output], rows: Sequence[GenerationRequest], task: Task, *, is_stream: bool
) -> tuple[str, ...]:
    """The names to request. Images that a mask shaped bring it along, where the model can give it.

    Raises:
        InvalidRequest: an output doesn't exist, or not there.
    """
    if isinstance(outputs, str) or not set(outputs) <= set(get_args(Output)):
        raise InvalidRequest(f"outputs={outputs!r} must be a sequence of {get_args(Output)}")
    has_mask_output = task == "generate" and not is_stream
    if "mask" in outputs and not has_mask_output:
        raise InvalidRequest(f"outputs={outputs!r}: only `generate` gives a mask")
    has_mask = has_mask_output and "image" in outputs and any(row.mask_image is not None for row in rows)
    return tuple(dict.fromkeys((*outputs, "mask") if has_mask else outputs))


def read_used(tensors: Tensors, name: str, index: int, kind: Callable[[str], Number]) -> Number:
    """What the server really used; by way of text, so that FP32's 4.1 isn't 4.0999999."""
    return kind(str(tensors[f"used_{name}"][index, 0]))


def read_image(tensors: Tensors, index: int) -> Image.Image | None:
    """One row's image; None where it wasn't requested or, in a stream, wasn't decoded."""
    has_pixels = "image" in tensors and tensors["image"].size > 0
    return Image.fromarray(tensors["image"][index]) if has_pixels else None


def read_latents(tensors: Tensors, index: int) -> Any:
    return tensors["latents"][index].copy() if "latents" in tensors else None


def read_mask(tensors: Tensors, index: int) -> Image.Image | None:
    """One row's mask. A request without any has one pixel in its place, which says that all may change."""
    if "mask" not in tensors:
        return None
    pixels = tensors["mask"][index]
    if pixels.size == 1:
        size = read_used(tensors, "width", index, int), read_used(tensors, "height", index, int)
        return Image.new("L", size, _ALL_WHITE)
    return Image.fromarray(pixels)
