"""What differs between model families."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qwen_image_contract import Task

CONDITION_TOKEN_SIDE = 28  # pixels a side that the text encoder makes a token of
LONGEST_RATIO = 16  # of the sides of a picture that a request may bring
VISION = "<|vision_start|><|image_pad|><|vision_end|>"  # a picture's place in a prompt


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
    """One family's facts. The template's text is what the pipeline class of diffusers was trained with, {} the prompt.

    States of the template's tokens before the prompt are dropped.
    """

    pipeline_class: str
    transformer_class: str
    text_encoder_class: str
    vae_class: str
    scheduler_class: str
    prompt_template: str
    max_sequence_length: int  # text tokens the transformer was trained with
    latent_channels: int
    vae_scale_factor: int  # pixels a latent position covers, per side
    patch_size: int  # latent positions a transformer token covers, per side
    default_size: tuple[int, int]  # (height, width) in pixels
    processor_class: str | None = None  # of the component that edit checkpoints have more
    edit: Edit | None = None  # None: a picture that comes along is what denoising starts from

    @property
    def task(self) -> Task:
        """Whose ensembles serve it."""
        return "generate" if self.edit is None else "edit"

    @property
    def size_multiple(self) -> int:
        """Pixels one transformer token covers, per side: height and width must be multiples of it."""
        return self.vae_scale_factor * self.patch_size
