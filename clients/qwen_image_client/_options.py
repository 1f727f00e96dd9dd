"""The options of the clients' methods, keyword by keyword, and the guidance that programs add to them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from qwen_image_client._address import Protocol
from qwen_image_client._wire_types import Picture

OnOff: TypeAlias = Literal["on", "off"]
ON_OFF: tuple[OnOff, ...] = get_args(OnOff)
DEFAULT_GUIDANCE: OnOff = "on"  # as in Qwen-Image's own examples
BLANK = " "  # their negative prompt
NO_GUIDANCE = 1.0  # the largest scale without effect


class RowOptions(TypedDict, total=False):
    """The options that every image of a call shares. One left out (or None) takes the server's default.

    Keys:
        negative_prompt: what to steer away from; left out, guidance is off. An empty one counts as given.
        height, width: in pixels.
        num_inference_steps: denoising steps.
        true_cfg_scale: strength of the guidance, in force only with a negative prompt and above 1.
        cfg_start, cfg_end: the part of the steps that guidance is in force in, 0 to 1 when left out.
        sigmas: the noise levels to use in place of the scheduler's own, one a step.
    """

    negative_prompt: str | None
    height: int | None
    width: int | None
    num_inference_steps: int | None
    true_cfg_scale: float | None
    cfg_start: float | None
    cfg_end: float | None
    sigmas: Sequence[float] | None


class EditOptions(RowOptions, total=False):
    """Every option of `edit` and `stream_edit`.

    Keys:
        seed: an int: a prompt's images take seed, seed + 1, ...; a list: one seed an image, prompt by prompt;
            left out: the server draws one an image, and returns it.
        num_images: images of each prompt, 1 when left out.
    """

    seed: int | Sequence[int] | None
    num_images: int


class GenerationOptions(EditOptions, total=False):
    """Every option of `generate` and `stream`.

    Keys:
        image: the image to start from; left out, an image starts from noise.
        strength: how much of `image` may change, above 0 and at most 1; of the steps, this part is made.
        mask_image: where `image` may change: white is generated, black stays as it is.
    """

    image: Picture | None
    strength: float | None
    mask_image: Picture | None


class ClientOptions(TypedDict, total=False):
    """What a client is made with, besides the server's url.

    Keys:
        protocol: "grpc" (when the url has no scheme) or "http", which has no previews.
        timeout_s: the limit of every call that gives none of its own; None is no limit.
        retries: further attempts for a request that was refused before any work began.
        model: the served model's name; its edit, stream and cancel models are named after it.
        headers: sent with every request, for instance a gateway's authorization.
        root_certificates: a PEM file to trust in place of the system's.
    """

    protocol: Protocol | None
    timeout_s: float | None
    retries: int
    model: str
    headers: Mapping[str, str] | None
    root_certificates: str | Path | None


def guidance_options(negative_prompt: str | None, true_cfg_scale: float | None, default: OnOff) -> Mapping[str, Any]:
    """A request's negative prompt and scale as options of `Client.generate`, for the command line, gateway and page.

    The clients' own methods don't add guidance: there, as in diffusers, it is off without a negative prompt.

    A scale of 1 or less turns guidance off. A larger one or a negative prompt, even an empty one, turns it on.
    `default` decides where neither is given.
    """
    is_on = default == "on" if true_cfg_scale is None else true_cfg_scale > NO_GUIDANCE
    if negative_prompt is None and is_on:
        negative_prompt = BLANK
    options = {"negative_prompt": negative_prompt, "true_cfg_scale": true_cfg_scale}
    return {name: value for name, value in options.items() if value is not None}
