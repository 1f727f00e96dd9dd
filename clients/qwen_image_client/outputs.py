"""The output tensors: which a call asks for, and what is read from them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from PIL import Image

from qwen_image_client.call import Task, Tensors
from qwen_image_client.errors import InvalidRequest
from qwen_image_client.request import GenerationRequest

Output: TypeAlias = Literal["image", "latents", "mask"]
Number = TypeVar("Number", int, float)
STEP = "step"
USED_OUTPUTS = ("used_seed", "used_num_inference_steps", "used_true_cfg_scale", "used_width", "used_height")
_ALL_PAINTED = 255


def wanted(
    outputs: Sequence[Output], rows: Sequence[GenerationRequest], task: Task, *, is_stream: bool
) -> tuple[str, ...]:
    """The names to ask for. Images that a mask shaped bring it along, where the model can give it.

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


def used(tensors: Tensors, name: str, index: int, kind: Callable[[str], Number]) -> Number:
    """What the server really used; by way of text, so that FP32's 4.1 isn't 4.0999999."""
    return kind(str(tensors[f"used_{name}"][index, 0]))


def image(tensors: Tensors, index: int) -> Image.Image | None:
    """One row's image; None where it wasn't asked for or, in a stream, wasn't decoded."""
    has_pixels = "image" in tensors and tensors["image"].size > 0
    return Image.fromarray(tensors["image"][index]) if has_pixels else None


def latents(tensors: Tensors, index: int) -> Any:
    return tensors["latents"][index].copy() if "latents" in tensors else None


def mask(tensors: Tensors, index: int) -> Image.Image | None:
    """One row's mask. A request without any has one pixel in its place, which says that all was painted."""
    if "mask" not in tensors:
        return None
    pixels = tensors["mask"][index]
    if pixels.size == 1:
        size = used(tensors, "width", index, int), used(tensors, "height", index, int)
        return Image.new("L", size, _ALL_PAINTED)
    return Image.fromarray(pixels)
