"""What lies in a checkpoint's folders: JSON, and the files of weights that diffusers and transformers would load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qwen_image.errors import CheckpointError

WEIGHT_SUFFIXES = (".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".gguf")
LFS_POINTER = b"version https://git-lfs"
LFS_POINTER_MAX_BYTES = 1024


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. CheckpointError if there is none."""
    try:
        refuse_pointer(path)
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} can't be read as JSON: {error}") from error
    if not isinstance(contents, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(contents).__name__}")
    return contents


def refuse_pointer(path: Path) -> None:
    """CheckpointError for what git leaves in place of a large file."""
    size = path.stat().st_size
    if size < LFS_POINTER_MAX_BYTES and path.read_bytes().startswith(LFS_POINTER):
        raise CheckpointError(
            f"{path} is a Git-LFS pointer of {size} bytes, not the file: run `git lfs pull` in the checkpoint"
        )


def has_weights_name(file: Path) -> bool:
    """Whether a file is of weights, or an index of such files, by its name."""
    return file.name.endswith(WEIGHT_SUFFIXES)


def weight_files(component: Path) -> list[Path]:
    """The files of weights that the component's library would load, and no stray ones beside them, in order.

    CheckpointError if there are none, or if the index that names them is broken.
    """
    single = component / f"{_weights_name(component)}.safetensors"
    index = index_file(component)
    if index is None and not single.is_file():
        found = sorted(file.name for file in component.iterdir() if has_weights_name(file))
        raise CheckpointError(
            f"{component} has no weights: {single.name}, or {single.name}.index.json and the files that it names, are "
            f"read; it has {', '.join(found) or 'neither'}. load_format=dummy needs none"
        )
    return [single] if index is None else [component / name for name in sorted(set(weight_map(index).values()))]


def index_file(component: Path) -> Path | None:
    """The index by which the component's files are found; None where they are one file."""
    single = component / f"{_weights_name(component)}.safetensors"
    index = single.with_name(f"{single.name}.index.json")
    prefers_single = component.name == "text_encoder"  # transformers; diffusers takes the index where it has both
    return None if not index.is_file() or (prefers_single and single.is_file()) else index


def weight_map(index: Path) -> dict[str, str]:
    """Which file holds which tensor, as an index says."""
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise CheckpointError(f"{index} has no weight_map")
    if wrong := [name for name in named.values() if not isinstance(name, str) or "/" in name]:
        raise CheckpointError(f"{index}: {wrong[0]!r} in its weight_map must be the name of a file beside it")
    return named


def _weights_name(component: Path) -> str:
    return "model" if component.name == "text_encoder" else "diffusion_pytorch_model"
