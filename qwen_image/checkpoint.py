"""A checkpoint in the diffusers layout: found, read once, checked before anything heavy is loaded."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from qwen_image.checkpoint_checks import AREA_KEYS, DEFAULT_SIZE_KEY, WEIGHTED, check_checkpoint
from qwen_image.checkpoint_files import read_json
from qwen_image.errors import CheckpointError
from qwen_image.families import FAMILIES, Edit, Family
from qwen_image.weight_checks import check_weights

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_log = logging.getLogger(__name__)


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


def open_checkpoint(folder: str | Path, *, needs_weights: bool = True) -> Checkpoint:
    """Check a local folder and return it. CheckpointError says what is missing, of another class or does not fit.

    Of weights only headers are read. Without `needs_weights` their files may be missing: for who loads none, or random
    ones.
    """
    folder = Path(folder)
    index = folder / "model_index.json"
    if not index.is_file():
        raise CheckpointError(f"{folder} is no diffusers checkpoint: it has no model_index.json")
    checkpoint = Checkpoint(folder, _family(read_json(index), index))
    check_checkpoint(checkpoint)
    if needs_weights:
        check_weights(checkpoint, WEIGHTED)
    return checkpoint


def resolve_checkpoint(name: str | Path, revision: str | None = None, *, needs_weights: bool = True) -> Path:
    """A local folder as it is; a Hugging Face id downloaded at a revision.

    A tag or a branch may move, so the commit that it is now is logged. CheckpointError if there is no such checkpoint.
    """
    if str(name) and Path(name).is_dir():
        if revision is not None:
            raise CheckpointError(f"revision={revision!r} is for a Hugging Face id, and {name} is a folder here")
        return Path(name).resolve()
    if HUB_ID.fullmatch(str(name)) is None or Path(name).exists():
        raise CheckpointError(f"checkpoint '{name}' is neither a folder nor a Hugging Face id (owner/name)")
    if revision is None:
        raise CheckpointError(
            f"checkpoint '{name}' is no folder here; if it is a Hugging Face id, pin its revision: a commit hash"
        )
    folder = _download(str(name), revision, needs_weights)
    if folder.name != revision:
        _log.warning("%s: revision %s is commit %s now; name that to serve the same again", name, revision, folder.name)
    return folder


def _download(name: str, revision: str, needs_weights: bool) -> Path:
    """The snapshot's folder, which has its commit's name."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.txt", *(["*.safetensors"] if needs_weights else [])]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError, HTTPError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"checkpoint '{name}' is no folder here, and Hugging Face gives no revision {revision} of it: {reason}"
        ) from error


def _family(contents: dict[str, Any], index: Path) -> Family:
    name = contents.get("_class_name")
    if name not in FAMILIES:
        raise CheckpointError(f"{index}: _class_name={name!r} is not served; served are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[name]
