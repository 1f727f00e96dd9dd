"""Requests as callers send them: paths and fields.

A field that is left out takes the server's default; an unknown field is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from qwen_image_client.integration import NO_GUIDANCE, OnOff, guidance_options
from qwen_image_contract import INPUTS, LARGEST_INT32, LARGEST_SEED
from qwen_image_gateway.errors import invalid

GENERATIONS = "/v1/images/generations"
EDITS = "/v1/images/edits"
CHAT = "/v1/chat/completions"
IMAGE_PATHS = (GENERATIONS, EDITS, CHAT)
MODELS = "/v1/models"
METRICS = "/metrics"
HEALTH_PATHS = ("/health", "/health/ready")  # need neither a key nor an allowed host

OutputFormat = Literal["png", "jpeg", "webp"]
# Public inputs that the gateway has no field of the same name for, or that it does not send as they come, and why.
OTHERWISE = {
    "prompt": "required, and templated by the chat's messages",
    "negative_prompt": "with the scale, by `Fields.guidance`",
    "true_cfg_scale": "with the negative prompt, by `Fields.guidance`",
    "height": "size",
    "width": "size",
    "seed": "counted up image by image",
    "sigmas": "not a field",
    "input_image": "files",
    "mask_image": "a file",
    "strength": "of edits alone",
    "preview_every": "partial_images",
    "num_previews": "partial_images",
}
PASSED_ON = [each.name for each in INPUTS if each.name not in OTHERWISE]
NO_EFFECT = "Accepted, without effect."
_URL_MODELS = "dall-e-"  # models whose response_format is url unless the request says otherwise


def _normalize_format(value: object) -> object:
    """Accepts a format as people write it: PNG, jpg."""
    return {"jpg": "jpeg"}.get(value.lower(), value.lower()) if isinstance(value, str) else value


class Fields(BaseModel):
    """What both routes take."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(min_length=1, description="What to paint.")
    model: str | None = Field(None, description="The model that GET /v1/models names; there is only one.")
    n: int | None = Field(None, ge=1, le=10, description="Pictures to make, each with its own seed. 1 if left out.")
    size: str | None = Field(
        None, pattern=r"^(auto|[1-9][0-9]{1,4}x[1-9][0-9]{1,4})$", description="WIDTHxHEIGHT in pixels, or auto."
    )
    response_format: Literal["b64_json", "url"] | None = Field(
        None, description="url answers with data URLs, and is the default of models named dall-e-*; else b64_json is."
    )
    output_format: Annotated[OutputFormat, BeforeValidator(_normalize_format)] | None = Field(
        None, description="png if left out."
    )
    output_compression: int | None = Field(
        None, ge=0, le=100, description="The quality of jpeg and webp, 100 if left out; png has none."
    )
    quality: Literal["auto", "low", "medium", "high", "standard", "hd"] | None = Field(None, description=NO_EFFECT)
    style: Literal["vivid", "natural"] | None = Field(None, description=NO_EFFECT)
    background: Literal["auto", "opaque"] | None = Field(None, description="Images are always opaque.")
    moderation: Literal["auto", "low"] | None = Field(None, description=NO_EFFECT)
    input_fidelity: Literal["low", "high"] | None = Field(None, description=NO_EFFECT)
    safety_identifier: str | None = Field(None, max_length=256, description=NO_EFFECT)
    vae_use_slicing: bool | None = Field(None, description=NO_EFFECT)
    vae_use_tiling: bool | None = Field(None, description=NO_EFFECT)
    generator_device: str | None = Field(None, max_length=64, description=f"{NO_EFFECT} Noise comes from the CPU.")
    bot_task: str | None = Field(None, max_length=64, description=NO_EFFECT)
    stream: bool | None = Field(None, description="Answer with server-sent events.")
    partial_images: int | None = Field(None, ge=0, le=3, description="Previews on the way, streaming only.")
    user: str | None = Field(None, max_length=256, description="Written to the gateway's log.")
    negative_prompt: str | None = Field(
        None, description="What to steer away from; where guidance is on, a blank if left out."
    )
    num_inference_steps: int | None = Field(None, ge=1, le=LARGEST_INT32, description="Denoising steps.")
    true_cfg_scale: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Strength of the guidance: on over 1, off at 1 or less."
    )
    guidance_scale: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Another name of true_cfg_scale, which counts where both are sent."
    )
    cfg_start: float | None = Field(
        None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Guidance begins after this part of the steps.",
    )
    cfg_end: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Guidance ends after this part of the steps."
    )
    seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="Of the first picture; the next ones take the next numbers."
    )

    @property
    def wants_url(self) -> bool:
        """OpenAI answers with a URL where a request names a dall-e model and no format; so does the gateway."""
        default = "url" if (self.model or "").startswith(_URL_MODELS) else "b64_json"
        return (self.response_format or default) == "url"

    @property
    def file_format(self) -> OutputFormat:
        return self.output_format or "png"

    def guidance(self, default: OnOff) -> Mapping[str, Any]:
        """The negative prompt and the scale as the SDK's options; `default` applies to a request with neither."""
        scale = self.guidance_scale if self.true_cfg_scale is None else self.true_cfg_scale
        return guidance_options(self.negative_prompt, scale, default)

    def passed_on(self) -> Mapping[str, Any]:
        """Options of the SDK that are fields of the same name, and are sent as they came."""
        given = {name: getattr(self, name) for name in PASSED_ON}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def side_lengths(self) -> tuple[int, int] | None:
        """Width and height in pixels; None: the server chooses."""
        if self.size is None or self.size == "auto":
            return None
        width, height = self.size.split("x")
        return int(width), int(height)


class EditFields(Fields):
    """What /v1/images/edits takes beside the pictures."""

    strength: float | None = Field(
        None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="How far to go from the picture; where the server has no edit checkpoint.",
    )


def check_combinations(fields: Fields) -> None:
    """Refuses fields that contradict each other.

    Raises:
        ApiError: which, and what to do.
    """
    scales = {fields.true_cfg_scale or NO_GUIDANCE, fields.guidance_scale or NO_GUIDANCE}
    if len(scales) > 1 and min(scales) > NO_GUIDANCE:
        raise invalid(
            f"guidance_scale={fields.guidance_scale} and true_cfg_scale={fields.true_cfg_scale} are two values for the "
            "one guidance that there is: send one of them, or 1 as the other",
            "guidance_scale",
        )
    if fields.partial_images and not fields.stream:
        raise invalid("partial_images are sent in streams only: add stream=true", "partial_images")
    if fields.stream and (fields.n or 1) > 1:
        raise invalid(f"n={fields.n} in a stream: its events don't say which picture they are of; ask n times", "n")
    if fields.stream and fields.response_format == "url":
        raise invalid("response_format=url in a stream: its events hold b64_json; leave it out", "response_format")
    last_seed = (fields.seed or 0) + (fields.n or 1) - 1
    if last_seed > LARGEST_SEED:
        raise invalid(
            f"seed={fields.seed} with n={fields.n}: the last image would have seed {last_seed}, at most {LARGEST_SEED} "
            "is taken",
            "seed",
        )
