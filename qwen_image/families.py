"""What differs between model families, chosen by the pipeline class that a checkpoint names."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

CONDITION_TOKEN_SIDE = 28  # pixels a side that the text encoder makes a token of
LONGEST_RATIO = 16  # of the sides of a picture that a request may bring


@dataclass(frozen=True, slots=True)
class Edit:
    """How a family that edits sees a request's pictures. Areas are pixels; sides are rounded to `side_multiple`."""

    max_images: int
    picture_prompt: str  # stands before the prompt for every picture; {} is its number, from 1
    condition_area: int  # a picture's size as the text encoder sees it
    reference_area: int  # its size as the VAE sees it, and of the result if the request names none
    side_multiple: int = 32

    @property
    def max_picture_tokens(self) -> int:
        """That all pictures add to the text states: the longest ones allowed, at most a token a letter around them."""
        words = len(self.picture_prompt.replace(VISION, "")) + 2  # the marks before and after a picture
        return self.max_images * (self.max_condition_tokens(CONDITION_TOKEN_SIDE) + words)

    def max_condition_tokens(self, token_side: int) -> int:
        """No picture has more as the text encoder sees it, by tokens of so many pixels a side.

        Its sides grow by up to half of what they are rounded to, `side_multiple` and then a token's side.
        """
        growth = (self.side_multiple + token_side) / 2
        longer, shorter = (math.sqrt(self.condition_area * ratio) for ratio in (LONGEST_RATIO, 1 / LONGEST_RATIO))
        return int((longer + growth) * (shorter + growth) / token_side**2)


@dataclass(frozen=True, slots=True)
class Family:
    """One family's facts. The words of the template are those the pipeline class of diffusers was trained with."""

    pipeline_class: str
    transformer_class: str
    text_encoder_class: str
    vae_class: str
    scheduler_class: str
    prompt_template: str
    template_tokens: int  # tokens of the template before the prompt, dropped from the text states
    max_sequence_length: int  # text tokens the transformer was trained with
    latent_channels: int
    vae_scale_factor: int  # pixels a latent position covers, per side
    patch_size: int  # latent positions a transformer token covers, per side
    default_size: tuple[int, int]  # (height, width) in pixels
    processor_class: str | None = None  # of the component that edit checkpoints have more
    edit: Edit | None = None  # None: a picture that comes along is what denoising starts from

    @property
    def size_multiple(self) -> int:
        """Pixels one transformer token covers, per side: height and width must be multiples of it."""
        return self.vae_scale_factor * self.patch_size


QWEN_IMAGE = Family(
    pipeline_class="QwenImagePipeline",
    transformer_class="QwenImageTransformer2DModel",
    text_encoder_class="Qwen2_5_VLForConditionalGeneration",
    vae_class="AutoencoderKLQwenImage",
    scheduler_class="FlowMatchEulerDiscreteScheduler",
    prompt_template=(
        "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial"
        " relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
    template_tokens=34,
    max_sequence_length=1024,
    latent_channels=16,
    vae_scale_factor=8,
    patch_size=2,
    default_size=(1328, 1328),
)

VISION = "<|vision_start|><|image_pad|><|vision_end|>"

QWEN_IMAGE_EDIT = replace(
    QWEN_IMAGE,
    pipeline_class="QwenImageEditPipeline",
    prompt_template=(
        "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects,"
        " background), then explain how the user's text instruction should alter or modify the image. Generate a new"
        " image that meets the user's requirements while maintaining consistency with the original input where"
        " appropriate.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    ),
    template_tokens=64,
    default_size=(1024, 1024),
    processor_class="Qwen2VLProcessor",
    edit=Edit(max_images=1, picture_prompt=VISION, condition_area=1024 * 1024, reference_area=1024 * 1024),
)

QWEN_IMAGE_EDIT_PLUS = replace(
    QWEN_IMAGE_EDIT,
    pipeline_class="QwenImageEditPlusPipeline",
    edit=Edit(
        max_images=3, picture_prompt=f"Picture {{}}: {VISION}", condition_area=384 * 384, reference_area=1024 * 1024
    ),
)

FAMILIES = {family.pipeline_class: family for family in (QWEN_IMAGE, QWEN_IMAGE_EDIT, QWEN_IMAGE_EDIT_PLUS)}
