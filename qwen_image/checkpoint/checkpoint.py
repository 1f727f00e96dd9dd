"""A checkpoint in the diffusers layout: its folder, its family, what its configuration files say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from qwen_image.checkpoint.files import read_json
from qwen_image.families import Edit, Family

# Ours, optional in model_index.json.
DEFAULT_SIZE_KEY = "_default_size"  # [height, width] in pixels
AREA_KEYS = {"_condition_area": "condition_area", "_reference_area": "reference_area"}  # pixels; the fields of Edit


class LoadFormat(StrEnum):
    """Where weights come from: the checkpoint's files, or random ones of its dimensions (vLLM's words)."""

    AUTO = "auto"
    DUMMY = "dummy"

    @property
    def reads_files(self) -> bool:
        return self is LoadFormat.AUTO


@dataclass(frozen=True)
class Checkpoint:
    """A folder that `open_checkpoint` has checked."""

    folder: Path
    family: Family

    @cached_property
    def index(self) -> dict[str, Any]:
        return read_json(self.folder / "model_index.json")

    def config(self, component: str) -> dict[str, Any]:
        name = "scheduler_config.json" if component == "scheduler" else "config.json"
        return read_json(self.folder / component / name)

    @property
    def default_size(self) -> tuple[int, int]:
        """(height, width) in pixels of an image whose request names none."""
        height, width = self.index.get(DEFAULT_SIZE_KEY, self.family.default_size)
        return height, width

    @property
    def edit(self) -> Edit | None:
        """How the pictures of an edit are seen, with the checkpoint's own areas; None unless the family edits."""
        if self.family.edit is None:
            return None
        return replace(
            self.family.edit, **{field: self.index[key] for key, field in AREA_KEYS.items() if key in self.index}
        )

    @property
    def tokenizer_folder(self) -> Path:
        """Of the tokenizer that diffusers reads prompts with: the processor's own where there is a processor."""
        return self.folder / ("processor" if self.family.processor_class else "tokenizer")

    @property
    def max_text_tokens(self) -> int:
        """Of one row's text states: the prompt, and the pictures of an edit, which are read with it."""
        return self.family.max_sequence_length + (self.edit.max_picture_tokens if self.edit else 0)

    @property
    def prompt_embeds_dim(self) -> int:
        return int(self.config("transformer")["joint_attention_dim"])

    @property
    def token_channels(self) -> int:
        return int(self.config("transformer")["in_channels"])
