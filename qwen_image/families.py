"""What differs between model families, chosen by the pipeline class that a checkpoint names."""

from __future__ import annotations

from dataclasses import dataclass


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

FAMILIES = {family.pipeline_class: family for family in (QWEN_IMAGE,)}
