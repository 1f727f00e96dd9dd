"""What one image is made from, and how the options of a call become one request a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, cast

from qwen_image_client._errors import InvalidRequest
from qwen_image_client._options import EditOptions, RowOptions
from qwen_image_client._wire_types import Picture, converter_of, encode_image, encode_images, int32, int64
from qwen_image_contract import ROW_INPUTS

_CONVERTERS = {each.name: converter_of(each) for each in ROW_INPUTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One image to make: one row of a request. None leaves a value to the server's default.

    Attributes:
        input_image: the image to start from, or the images to edit; read and encoded here, as a tuple of files.
        strength, mask_image: see `GenerationOptions`; not for edits.

    Raises:
        InvalidRequest: a value has a type the wire can't carry. Ranges are checked by the server.
        OSError: an image's file can't be read.
    """

    prompt: str
    negative_prompt: str | None = None
    height: int | None = None
    width: int | None = None
    num_inference_steps: int | None = None
    true_cfg_scale: float | None = None
    cfg_start: float | None = None
    cfg_end: float | None = None
    seed: int | None = None
    sigmas: Sequence[float] | None = None
    input_image: Picture | Sequence[Picture] | None = None
    strength: float | None = None
    mask_image: Picture | None = None

    def __post_init__(self) -> None:
        for name, convert in _CONVERTERS.items():
            value = getattr(self, name)
            if value is not None or name == "prompt":
                object.__setattr__(self, name, convert(name, value))

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """`input_image` as it was encoded; empty where there is none."""
        return cast(tuple[bytes, ...], self.input_image or ())

    @property
    def mask(self) -> bytes | None:
        """`mask_image` as it was encoded."""
        return cast(bytes | None, self.mask_image)


def expand_requests(
    prompt: str | Sequence[str],
    *,
    image: Picture | None = None,
    strength: float | None = None,
    mask_image: Picture | None = None,
    **options: Unpack[EditOptions],
) -> list[GenerationRequest]:
    """One request an image: `num_images` of the first prompt, then of the second, and so on.

    A list of prompts with one int seed makes the images that each prompt alone would make with it.

    Raises:
        InvalidRequest: no prompt, a list of seeds of the wrong length, or a value of the wrong type.
        OSError: an image's file can't be read.
        TypeError: an unknown option.
    """
    images = {
        "input_image": None if image is None else (encode_image("image", image),),
        "strength": strength,
        "mask_image": None if mask_image is None else encode_image("mask_image", mask_image),
    }
    return _rows(prompt, images, **options)


def expand_edits(
    prompt: str | Sequence[str], images: Picture | Sequence[Picture], **options: Unpack[EditOptions]
) -> list[GenerationRequest]:
    """As `expand_requests`; every image is made from the same ones."""
    return _rows(prompt, {"input_image": encode_images("images", images)}, **options)


def _rows(
    prompt: str | Sequence[str],
    images: Mapping[str, Any],
    *,
    seed: int | Sequence[int] | None = None,
    num_images: int = 1,
    **options: Unpack[RowOptions],
) -> list[GenerationRequest]:
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    num_images = int32("num_images", num_images)
    if not prompts or num_images < 1:
        raise InvalidRequest(f"{len(prompts)} prompts with num_images={num_images}: at least one of each is needed")
    seeds = _seeds(seed, len(prompts), num_images)
    rows = [row for row in prompts for _ in range(num_images)]
    return [
        GenerationRequest(prompt=row, seed=seed, **images, **options) for row, seed in zip(rows, seeds, strict=True)
    ]


def _seeds(seed: int | Sequence[int] | None, num_prompts: int, num_images: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * (num_prompts * num_images)
    if not isinstance(seed, Sequence):
        first = int64("seed", seed)
        return [first + image for _ in range(num_prompts) for image in range(num_images)]
    if len(seed) != num_prompts * num_images:
        raise InvalidRequest(f"{len(seed)} seeds for {num_prompts * num_images} images: give one an image")
    return seed
