"""The model families that are served, one file each; a checkpoint's pipeline class picks one."""

from qwen_image.families.family import LONGEST_RATIO, VISION, Edit, Family
from qwen_image.families.qwen_image import QWEN_IMAGE
from qwen_image.families.qwen_image_edit import QWEN_IMAGE_EDIT
from qwen_image.families.qwen_image_edit_plus import QWEN_IMAGE_EDIT_PLUS

FAMILIES = {family.pipeline_class: family for family in (QWEN_IMAGE, QWEN_IMAGE_EDIT, QWEN_IMAGE_EDIT_PLUS)}

__all__ = [
    "FAMILIES",
    "LONGEST_RATIO",
    "QWEN_IMAGE",
    "QWEN_IMAGE_EDIT",
    "QWEN_IMAGE_EDIT_PLUS",
    "VISION",
    "Edit",
    "Family",
]
