"""Rows to input tensors, and output tensors to images: the public contract's shapes and types, batch first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tritonclient.utils import triton_to_np_dtype

from qwen_image_client._call import Tensors
from qwen_image_client._errors import InvalidRequest
from qwen_image_client._options import NO_GUIDANCE
from qwen_image_client._request import GenerationRequest
from qwen_image_contract import OUTPUTS, ROW_INPUTS, Input, Task

Output: TypeAlias = Literal["image", "latents", "mask"]
Number = TypeVar("Number", int, float)

_NO_IMAGE = b""
STEP = "step"
USED = {
    each.name.removeprefix("used_"): float if each.datatype == "FP32" else int
    for each in OUTPUTS
    if each.name.startswith("used_")
}
USED_OUTPUTS = tuple(f"used_{name}" for name in USED)
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
    columns = {each: _column(each, rows) for each in ROW_INPUTS}
    return {each.name: _tensor(each, column) for each, column in columns.items() if column is not None}


def _column(each: Input, rows: Sequence[GenerationRequest]) -> list[Any] | None:
    name, values = each.name, [getattr(row, each.name) for row in rows]
    missing = values.count(None)
    if missing == len(values):
        return None
    if each.is_image:
        return _padded(values)
    if missing:
        raise InvalidRequest(f"{name} is given for some of the {len(rows)} rows: give it for all of them or for none")
    if each.same_in_all_rows and len(set(values)) > 1:
        raise InvalidRequest(f"{name} differs between the rows of one request ({sorted(set(values))}): send one a size")
    if each.elements != 1 and len({len(row) for row in values}) > 1:
        raise InvalidRequest(f"{name} differ in length between the rows of one request: send one a length")
    return values


def _padded(values: Sequence[tuple[bytes, ...] | bytes | None]) -> list[tuple[bytes, ...]]:
    """Rows with as many images as the one with most: an empty element is no image."""
    rows = [(value,) if isinstance(value, bytes) else value or () for value in values]
    longest = max(map(len, rows))
    return [row + (_NO_IMAGE,) * (longest - len(row)) for row in rows]


def _tensor(each: Input, column: list[Any]) -> NDArray[Any]:
    values = [value.encode() if isinstance(value, str) else value for value in column]
    return np.array(values, dtype=triton_to_np_dtype(each.datatype)).reshape(len(values), -1)


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


def read_all_used(tensors: Tensors, index: int) -> dict[str, Any]:
    """What the server used for one row, by the names of the inputs; numbers all of them."""
    return {name: read_used(tensors, name, index, kind) for name, kind in USED.items()}


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
