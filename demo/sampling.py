"""Prompts to pictures through diffusers' own pipeline, with the guidance that the server uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from diffusers import QwenImagePipeline
from PIL import Image


def paint_prompts(
    pipeline: QwenImagePipeline,
    prompts: Sequence[str],
    seeds: Sequence[int],
    negative_prompt: str = " ",
    steps: int = 20,
    scale: float = 4.0,
    size: tuple[int, int] = (128, 128),
    batch: int = 64,
) -> list[Image.Image]:
    """One picture a prompt, each with its own seed on the CPU's generator."""
    pipeline.set_progress_bar_config(disable=True)
    images: list[Image.Image] = []
    for start in range(0, len(prompts), batch):
        part = list(prompts[start : start + batch])
        images += pipeline(
            prompt=part,
            negative_prompt=[negative_prompt] * len(part),
            height=size[0],
            width=size[1],
            num_inference_steps=steps,
            true_cfg_scale=scale,
            generator=[torch.Generator().manual_seed(seed) for seed in seeds[start : start + batch]],
        ).images
    return images
