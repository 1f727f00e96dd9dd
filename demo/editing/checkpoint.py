"""The edit checkpoint's folder: written, and opened with diffusers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLQwenImage, QwenImageEditPlusPipeline
from transformers import Qwen2Tokenizer

from build.tiny_checkpoint import EDIT_AREAS, tiny_processor
from demo.editing.model import EditToLatents
from demo.models import DEFAULT_SIZE, build_scheduler


def assemble_editor(
    model: EditToLatents, vae: AutoencoderKLQwenImage, tokenizer: Qwen2Tokenizer
) -> QwenImageEditPlusPipeline:
    return QwenImageEditPlusPipeline(
        scheduler=build_scheduler(),
        vae=vae,
        text_encoder=model.text_encoder,
        tokenizer=tokenizer,
        processor=tiny_processor(tokenizer),
        transformer=model.transformer,
    )


def save_editor(pipeline: QwenImageEditPlusPipeline, folder: Path) -> None:
    """The diffusers folder in bf16, with the sizes that the server reads from its index; a cut leaves the old one."""
    unfinished = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    pipeline.to(dtype=torch.bfloat16)
    pipeline.save_pretrained(unfinished)
    index_path = unfinished / "model_index.json"
    ours = {"_default_size": list(DEFAULT_SIZE), **EDIT_AREAS["QwenImageEditPlusPipeline"]}
    index_path.write_text(json.dumps({**json.loads(index_path.read_text()), **ours}, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def open_editor(folder: Path, device: str = "cpu") -> QwenImageEditPlusPipeline:
    """In float32, its text encoder told which tokens are pictures.

    transformers 5 gives pictures' tokens their rows and columns as positions only if it is told where they are, which
    the pipelines of diffusers 0.42 do not say (https://github.com/huggingface/diffusers/issues/14194).
    """
    pipeline = QwenImageEditPlusPipeline.from_pretrained(folder, dtype=torch.float32).to(device)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.text_encoder.register_forward_pre_hook(_with_token_types, with_kwargs=True)
    return pipeline


def _with_token_types(text_encoder: Any, arguments: tuple[Any, ...], given: dict[str, Any]) -> Any:
    are_pictures = given["input_ids"] == text_encoder.config.image_token_id
    return arguments, given | {"mm_token_type_ids": are_pictures.int()}
