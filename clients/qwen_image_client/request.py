"""What one image is made from, and how the options of a call become one request a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from qwen_image_client.errors import InvalidRequest
from qwen_image_client.values import int32, int64, real, reals, text

_CONVERT: Mapping[str, Callable[[str, object], object]] = {
    "prompt": text,
    "negative_prompt": text,
    "height": int32,
    "width": int32,
    "num_inference_steps": int32,
    "true_cfg_scale": real,
    "seed": int64,
    "sigmas": reals,
}


class RowOptions(TypedDict, total=False):
    """The options that every image of a call shares. One left out (or None) takes the server's default.

    Keys:
        negative_prompt: what to steer away from; left out, guidance is off. An empty one counts as given.
        height, width: in pixels.
        num_inference_steps: denoising steps.
        true_cfg_scale: strength of the guidance, in force only with a negative prompt and above 1.
        sigmas: the noise levels to use in place of the scheduler's own, one a step.
    """

    negative_prompt: str | None
    height: int | None
    width: int | None
    num_inference_steps: int | None
    true_cfg_scale: float | None
    sigmas: Sequence[float] | None


class GenerationOptions(RowOptions, total=False):
    """Every option of `generate` and `stream`.

    Keys:
        seed: an int: a prompt's images take seed, seed + 1, ...; a list: one seed an image, prompt by prompt;
            left out: the server draws one an image, and returns it.
        num_images: images of each prompt, 1 when left out.
    """

    seed: int | Sequence[int] | None
    num_images: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One image to make: one row of a request. None leaves a value to the server's default.

    Raises:
        InvalidRequest: a value has a type the wire can't carry. Ranges are checked by the server.
    """

    prompt: str
    negative_prompt: str | None = None
    height: int | None = None
    width: int | None = None
    num_inference_steps: int | None = None
    true_cfg_scale: float | None = None
    seed: int | None = None
    sigmas: Sequence[float] | None = None

    def __post_init__(self) -> None:
        for name, convert in _CONVERT.items():
            value = getattr(self, name)
            if value is not None or name == "prompt":
                object.__setattr__(self, name, convert(name, value))


def expand_requests(
    prompt: str | Sequence[str],
    *,
    seed: int | Sequence[int] | None = None,
    num_images: int = 1,
    **options: Unpack[RowOptions],
) -> list[GenerationRequest]:
    """One request an image: `num_images` of the first prompt, then of the second, and so on.

    A list of prompts with one int seed makes the images that each prompt alone would make with it.

    Raises:
        InvalidRequest: no prompt, a list of seeds of the wrong length, or a value of the wrong type.
        TypeError: an unknown option.
    """
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    num_images = int32("num_images", num_images)
    if not prompts or num_images < 1:
        raise InvalidRequest(f"{len(prompts)} prompts with num_images={num_images}: at least one of each is needed")
    seeds = _seeds(seed, len(prompts), num_images)
    rows = [row for row in prompts for _ in range(num_images)]
    return [GenerationRequest(prompt=row, seed=seed, **options) for row, seed in zip(rows, seeds, strict=True)]


def _seeds(seed: int | Sequence[int] | None, num_prompts: int, num_images: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * (num_prompts * num_images)
    if not isinstance(seed, Sequence):
        first = int64("seed", seed)
        return [first + image for _ in range(num_prompts) for image in range(num_images)]
    if len(seed) != num_prompts * num_images:
        raise InvalidRequest(f"{len(seed)} seeds for {num_prompts * num_images} images: give one an image")
    return seed
