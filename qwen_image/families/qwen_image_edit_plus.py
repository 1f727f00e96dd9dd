"""Edits of up to three pictures, each with its number before it."""

from dataclasses import replace

from qwen_image.families.family import VISION, Edit
from qwen_image.families.qwen_image_edit import QWEN_IMAGE_EDIT

QWEN_IMAGE_EDIT_PLUS = replace(
    QWEN_IMAGE_EDIT,
    pipeline_class="QwenImageEditPlusPipeline",
    edit=Edit(
        max_images=3, picture_prompt=f"Picture {{}}: {VISION}", condition_area=384 * 384, reference_area=1024 * 1024
    ),
)
