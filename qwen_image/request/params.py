"""What one image is asked for with. Defaults and ranges are the contract's; a server's limits are settings."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

from qwen_image.errors import InvalidRequest
from qwen_image.families import QWEN_IMAGE, Family
from qwen_image.sampling.guidance import guided_steps
from qwen_image.sampling.schedule import steps_skipped
from qwen_image_contract import INPUTS, Input, Limits, default_of

DRAWN_SEED_BITS = 53  # a drawn seed survives a JSON number


@dataclass(frozen=True, slots=True)
class GenerationParams:
    """One image's parameters. `height` and `width` default to the checkpoint's own size."""

    prompt: str
    negative_prompt: str | None = None
    height: int = QWEN_IMAGE.default_size[0]
    width: int = QWEN_IMAGE.default_size[1]
    num_inference_steps: int = int(default_of("num_inference_steps"))
    true_cfg_scale: float = default_of("true_cfg_scale")  # in force only with a negative prompt
    cfg_start: float = default_of("cfg_start")  # the part of the steps after which guidance begins
    cfg_end: float = default_of("cfg_end")  # and the part after which it ends
    seed: int = field(default_factory=lambda: secrets.randbits(DRAWN_SEED_BITS))
    sigmas: tuple[float, ...] | None = None
    strength: float | None = None  # how much of the picture it starts from may change; None: it starts from noise
    reference_pixels: int = 0  # of the pictures that an edit looks at, as the VAE sees them

    @property
    def uses_guidance(self) -> bool:
        """Whether the negative prompt is computed at all, text states included. An empty negative prompt counts."""
        guided = guided_steps(self.num_inference_steps - self.first_step, self.cfg_start, self.cfg_end)
        return self.negative_prompt is not None and self.true_cfg_scale > 1 and len(guided) > 0

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
    for each in INPUTS:
        if each.minimum is not None:
            _check_range(each, getattr(params, each.name), limits)
    if params.cfg_start > params.cfg_end:
        raise InvalidRequest(
            f"cfg_start={params.cfg_start:g} is above cfg_end={params.cfg_end:g}: guidance begins first"
        )
    if params.sigmas is not None:
        _check_sigmas(params.sigmas, limits)
        params = replace(params, num_inference_steps=len(params.sigmas))
    if params.strength is not None:
        _check_strength(params.strength)
    _check_work(params, limits)
    return params


def check_previews(preview_every: int | None, num_previews: int | None) -> None:
    """The inputs of a stream of these names; None was left out."""
    if preview_every is not None and num_previews is not None:
        raise InvalidRequest(
            f"preview_every={preview_every} and num_previews={num_previews} both say when to decode: send one of them"
        )
    if preview_every is not None and preview_every < 0:
        raise InvalidRequest(
            f"preview_every={preview_every} must be 0 or more: 0 for no pictures, n for one after every n-th step and "
            "the last"
        )
    if num_previews is not None and num_previews < 0:
        raise InvalidRequest(f"num_previews={num_previews} must be 0 or more: previews before the last image")


def image_tokens(limits: Limits, family: Family) -> tuple[int, int]:
    """The fewest and the most transformer tokens that an image within the limits has."""
    multiple = family.size_multiple
    alone = min(limits.max_pixels, limits.max_side**2)
    most = max(alone, limits.max_pixels_with_pictures) if family.edit else alone
    return (-(-limits.min_side // multiple)) ** 2, most // multiple**2


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


def _check_range(declared: Input, value: float, limits: Limits) -> None:
    """By what the contract says of an input that is one number. NaN is out of any range."""
    assert declared.minimum is not None, declared.name
    assert declared.maximum is not None, declared.name
    highest = getattr(limits, declared.maximum) if isinstance(declared.maximum, str) else declared.maximum
    if declared.minimum <= value <= highest:
        return
    if declared.datatype == "FP32":
        raise InvalidRequest(
            f"{declared.name}={value:g} must be a finite number between {declared.minimum:g} and {highest:g}"
            f"{declared.hint}"
        )
    raise InvalidRequest(f"{declared.name}={value} must be between {declared.minimum} and {highest}{declared.hint}")


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
