"""A checkpoint is found and checked before anything heavy is loaded."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from qwen_image.checkpoint.checkpoint import Checkpoint
from qwen_image.checkpoint.checks import WEIGHTED, check_checkpoint
from qwen_image.checkpoint.files import read_json
from qwen_image.checkpoint.weight_checks import check_weights
from qwen_image.errors import CheckpointError
from qwen_image.families import FAMILIES, Family

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_log = logging.getLogger(__name__)


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
