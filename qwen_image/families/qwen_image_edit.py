"""Edits of one picture."""

from dataclasses import replace

from qwen_image.families.family import VISION, Edit
from qwen_image.families.qwen_image import QWEN_IMAGE

QWEN_IMAGE_EDIT = replace(
    QWEN_IMAGE,
    pipeline_class="QwenImageEditPipeline",
    prompt_template=(
        "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects,"
        " background), then explain how the user's text instruction should alter or modify the image. Generate a new"
        " image that meets the user's requirements while maintaining consistency with the original input where"
        " appropriate.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    ),
    default_size=(1024, 1024),
    processor_class="Qwen2VLProcessor",
    edit=Edit(max_images=1, picture_prompt=VISION, condition_area=1024 * 1024, reference_area=1024 * 1024),
)
