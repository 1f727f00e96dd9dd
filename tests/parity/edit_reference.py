"""diffusers' edit pipelines as the reference for numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import DiffusionPipeline


def edit_reference(folder: Path) -> DiffusionPipeline:
    """The pipeline of a checkpoint's class, its text encoder told which tokens are pictures.

    transformers 5 gives pictures' tokens their rows and columns as positions only if it is told where they are, which
    transformers 4 found out itself and the pipelines of diffusers 0.42 do not say: they get positions in a row instead,
    which Qwen2.5-VL was not trained with (https://github.com/huggingface/diffusers/issues/14194).
    """
    pipeline = DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.text_encoder.register_forward_pre_hook(_with_token_types, with_kwargs=True)
    return pipeline


def _with_token_types(text_encoder: Any, arguments: tuple[Any, ...], given: dict[str, Any]) -> Any:
    are_pictures = given["input_ids"] == text_encoder.config.image_token_id
    return arguments, given | {"mm_token_type_ids": are_pictures.int()}
