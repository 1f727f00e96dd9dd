"""vLLM takes weights, tokenizer and preprocessor from one folder; the diffusers layout has them in several.

So a folder of links joins them. vLLM keys the kernels that it compiles by the folder's path: a new one at every start
would compile at every start. It is therefore named after the checkpoint, and stays beside those kernels.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from pathlib import Path

from qwen_image.checkpoint import Checkpoint
from qwen_image.checkpoint.files import has_weights_name, index_file, weight_files
from qwen_image.errors import CheckpointError

NEW = ".new-"  # begins the names of links that are not in place yet, which may be another process's


def encoder_folder(checkpoint: Checkpoint, cache: Path, *, with_weights: bool = True) -> Path:
    """Links to the files of the text encoder and of its tokenizer or processor, in a folder of `cache`.

    Servers that start at once over one checkpoint make the same links. CheckpointError if they can't be written.
    """
    files = _files(checkpoint, with_weights)
    folder = cache / hashlib.sha256(bytes(checkpoint.folder.resolve())).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for link in folder.iterdir():
            if link.name not in files and not link.name.startswith(NEW):
                link.unlink(missing_ok=True)
        for name, file in files.items():
            _link(folder / name, file)
        _remove_dead(cache)
    except OSError as error:
        raise CheckpointError(
            f"{cache} can't be written ({error}): set VLLM_CACHE_ROOT to a folder that can"
        ) from error
    return folder


def _files(checkpoint: Checkpoint, with_weights: bool) -> dict[str, Path]:
    """By name. vLLM reads every file of weights that it finds, so those that transformers would not load stay out."""
    encoder = checkpoint.folder.resolve() / "text_encoder"
    others = {
        file.name: file
        for folder in (checkpoint.tokenizer_folder.resolve(), encoder)  # the latter's config.json
        for file in folder.iterdir()
        if not has_weights_name(file)
    }
    weights = [*weight_files(encoder), index_file(encoder)] if with_weights else []
    return others | {file.name: file for file in weights if file is not None}


def _remove_dead(cache: Path) -> None:
    """Folders of checkpoints that are gone."""
    for folder in cache.iterdir():
        config = folder / "config.json"
        if config.is_symlink() and not config.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _link(link: Path, target: Path) -> None:
    """Put the link in place at once: another process may be reading it."""
    if link.is_symlink() and link.readlink() == target:
        return
    new = link.with_name(f"{NEW}{secrets.token_hex(8)}")
    new.symlink_to(target)
    new.replace(link)
