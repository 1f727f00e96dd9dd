"""What one image is asked for with: the parameters, their defaults, their limits. Every default lives here, once."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field, replace

from qwen_image.errors import InvalidRequest
from qwen_image.families import QWEN_IMAGE, Family
from qwen_image.sampling.schedule import steps_skipped
from qwen_image.setting import setting

LARGEST_SEED = 2**63 - 1
STRENGTH = 0.6  # where a picture to start from comes without one
PREVIEW_EVERY = 1  # steps
DRAWN_SEED_BITS = 53  # a drawn seed survives a JSON number


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server accepts; each one is set when the model repository is rendered."""

    min_side: int = setting(64, "pixels of an image's height or width, at least")
    max_side: int = setting(2048, "pixels of an image's height or width, at most")
    max_pixels: int = setting(2048 * 2048, "height x width of an image")
    max_pixels_with_pictures: int = setting(
        2048 * 2200, "of an image and its reference images together; the default is four of about 1024 x 1024"
    )
    max_inference_steps: int = setting(200, "steps of an image")
    max_pixel_steps: int = setting(2048 * 2048 * 100, "pixels x steps of an image: the work it may ask for")
    max_true_cfg_scale: float = setting(50.0, "guidance scale")
    max_prompt_bytes: int = setting(100_000, "of a prompt in UTF-8")
    max_image_bytes: int = setting(16 * 1024 * 1024, "of one input image's file")
    max_image_pixels: int = setting(4096 * 4096, "of one input image")

    def image_tokens(self, family: Family = QWEN_IMAGE) -> tuple[int, int]:
        """The fewest and the most transformer tokens that a picture within the limits has."""
        multiple = family.size_multiple
        alone = min(self.max_pixels, self.max_side**2)
        most = max(alone, self.max_pixels_with_pictures) if family.edit else alone
        return (-(-self.min_side // multiple)) ** 2, most // multiple**2


@dataclass(frozen=True, slots=True)
class GenerationParams:
    """One image's parameters. `height` and `width` default to the checkpoint's own size."""

    prompt: str
    negative_prompt: str | None = None
    height: int = QWEN_IMAGE.default_size[0]
    width: int = QWEN_IMAGE.default_size[1]
    num_inference_steps: int = 50
    true_cfg_scale: float = 4.0  # in force only with a negative prompt
    seed: int = field(default_factory=lambda: secrets.randbits(DRAWN_SEED_BITS))
    sigmas: tuple[float, ...] | None = None
    strength: float | None = None  # how much of the picture it starts from may change; None: it starts from noise
    reference_pixels: int = 0  # of the pictures that an edit looks at, as the VAE sees them

    @property
    def uses_guidance(self) -> bool:
        """Whether the negative prompt is computed at all, text states included. An empty negative prompt counts."""
        return self.negative_prompt is not None and self.true_cfg_scale > 1

    @property
    def first_step(self) -> int:
        """Steps that are left out because the image starts from a picture."""
        return 0 if self.strength is None else steps_skipped(self.num_inference_steps, self.strength)


def validated(params: GenerationParams, limits: Limits, family: Family = QWEN_IMAGE) -> GenerationParams:
    """The same, checked, the step count set from given sigmas. InvalidRequest names field, value and range."""
    for name in ("prompt", "negative_prompt"):
        _check_text(name, getattr(params, name), limits)
    _check_side("height", params.height, limits, family)
    _check_side("width", params.width, limits, family)
    _check_range("num_inference_steps", params.num_inference_steps, 1, limits.max_inference_steps)
    _check_scale(params.true_cfg_scale, limits)
    _check_range("seed", params.seed, 0, LARGEST_SEED, "; leave it out to have one drawn")
    if params.sigmas is not None:
        _check_sigmas(params.sigmas, limits)
        params = replace(params, num_inference_steps=len(params.sigmas))
    if params.strength is not None:
        _check_strength(params.strength)
    _check_work(params, limits)
    return params


def validated_preview_every(value: int) -> int:
    """The streaming input of this name: 0 decodes no picture, n one after every n-th step and after the last."""
    if value < 0:
        raise InvalidRequest(
            f"preview_every={value} must be 0 or more: 0 for no pictures, n for one after every n-th step and the last"
        )
    return value


def _check_text(name: str, text: str | None, limits: Limits) -> None:
    if text is None:
        return
    size = len(text.encode())
    if size > limits.max_prompt_bytes:
        raise InvalidRequest(f"{name} has {size} bytes; at most {limits.max_prompt_bytes} are allowed")
    if name == "prompt" and not text.strip():
        raise InvalidRequest(f"prompt={text!r} is empty; say what to paint (an empty negative_prompt is allowed)")


def _check_side(name: str, value: int, limits: Limits, family: Family) -> None:
    multiple = family.size_multiple
    if value % multiple == 0 and limits.min_side <= value <= limits.max_side:
        return
    lowest, highest = -(-limits.min_side // multiple) * multiple, limits.max_side // multiple * multiple
    nearest = min(max(round(value / multiple) * multiple, lowest), highest)
    raise InvalidRequest(
        f"{name}={value} must be a multiple of {multiple} between {lowest} and {highest}; the nearest is {nearest}"
    )


def _check_range(name: str, value: int, lowest: int, highest: int, hint: str = "") -> None:
    if not lowest <= value <= highest:
        raise InvalidRequest(f"{name}={value} must be between {lowest} and {highest}{hint}")


def _check_scale(value: float, limits: Limits) -> None:
    if not (math.isfinite(value) and 0 <= value <= limits.max_true_cfg_scale):
        raise InvalidRequest(
            f"true_cfg_scale={value:g} must be a finite number between 0 and {limits.max_true_cfg_scale:g} "
            "(1 or less turns guidance off)"
        )


def _check_sigmas(sigmas: tuple[float, ...], limits: Limits) -> None:
    if not 1 <= len(sigmas) <= limits.max_inference_steps:
        raise InvalidRequest(f"sigmas has {len(sigmas)} values; between 1 and {limits.max_inference_steps} are allowed")
    for position, sigma in enumerate(sigmas):
        if not 0 < sigma <= 1:  # also catches NaN
            raise InvalidRequest(f"sigmas[{position}]={sigma:g} must be a finite number above 0 and at most 1")
        if position and sigma >= sigmas[position - 1]:
            raise InvalidRequest(
                f"sigmas[{position}]={sigma:g} must be below the one before it, {sigmas[position - 1]:g}: sigmas fall"
            )


def _check_strength(strength: float) -> None:
    if not 0 < strength <= 1:  # also catches NaN
        raise InvalidRequest(
            f"strength={strength:g} must be above 0 and at most 1: 1 paints anew, a little keeps nearly all"
        )


def _check_work(params: GenerationParams, limits: Limits) -> None:
    pixels = params.height * params.width
    if pixels > limits.max_pixels:
        raise InvalidRequest(
            f"height={params.height} x width={params.width} is {pixels} pixels; at most {limits.max_pixels} are allowed"
        )
    pixels += params.reference_pixels
    if params.reference_pixels and pixels > limits.max_pixels_with_pictures:
        raise InvalidRequest(
            f"height={params.height} x width={params.width} and {params.reference_pixels} pixels of pictures are "
            f"{pixels} together; at most {limits.max_pixels_with_pictures} are allowed: ask for a smaller size or send "
            "fewer pictures"
        )
    if pixels * params.num_inference_steps > limits.max_pixel_steps:
        most = limits.max_pixel_steps // pixels
        raise InvalidRequest(
            f"num_inference_steps={params.num_inference_steps} at {params.width}x{params.height} is over the budget of "
            f"{limits.max_pixel_steps} pixel steps; at this size at most {most} steps are allowed"
        )
