"""What a server accepts."""

from __future__ import annotations

from dataclasses import dataclass

from qwen_image_contract.setting import setting


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server accepts; each one is set when the model repository is rendered."""

    min_side: int = setting(64, "pixels of an image's height or width, at least")
    max_side: int = setting(2048, "pixels of an image's height or width, at most")
    max_pixels: int = setting(2048 * 2048, "height x width of an image")
    max_pixels_with_pictures: int = setting(
        2048 * 2200, "of an image and its reference images together; the default is four of about 1024 x 1024"
    )
    max_inference_steps: int = setting(200, "steps of an image")
    max_pixel_steps: int = setting(2048 * 2048 * 100, "pixels x steps of an image: the work it may ask for")
    max_true_cfg_scale: float = setting(50.0, "guidance scale")
    max_prompt_bytes: int = setting(100_000, "of a prompt in UTF-8")
    max_image_bytes: int = setting(16 * 1024 * 1024, "of one input image's file")
    max_image_pixels: int = setting(4096 * 4096, "of one input image")
