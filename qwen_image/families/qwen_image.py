"""Text to image, and image to image from a picture that denoising starts from."""

from qwen_image.families.family import Family

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
    max_sequence_length=1024,
    latent_channels=16,
    vae_scale_factor=8,
    patch_size=2,
    default_size=(1328, 1328),
)
