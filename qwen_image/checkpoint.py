"""A checkpoint in the diffusers layout: found, read once, checked before anything heavy is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from qwen_image.errors import CheckpointError
from qwen_image.families import FAMILIES, Family

COMPONENTS = ("transformer", "vae", "text_encoder", "tokenizer", "scheduler")
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json")
DEFAULT_SIZE_KEY = "_default_size"  # ours, optional in model_index.json: [height, width]


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
    def prompt_embeds_dim(self) -> int:
        return int(self.config("transformer")["joint_attention_dim"])

    @property
    def token_channels(self) -> int:
        return int(self.config("transformer")["in_channels"])


def open_checkpoint(folder: str | Path) -> Checkpoint:
    """Check a local folder and return it. CheckpointError says what is missing, of another class or does not fit."""
    folder = Path(folder)
    index = folder / "model_index.json"
    if not index.is_file():
        raise CheckpointError(f"{folder} is no diffusers checkpoint: it has no model_index.json")
    contents = read_json(index)
    checkpoint = Checkpoint(folder, _family(contents, index))
    for component in COMPONENTS:
        _check_component(checkpoint, contents, component)
    _check_shapes(checkpoint)
    _check_default_size(checkpoint)
    return checkpoint


def resolve_checkpoint(name: str, revision: str | None = None) -> Path:
    """A local folder as it is; a Hugging Face id downloaded at a pinned revision (a commit hash or a tag)."""
    if name and Path(name).is_dir():
        return Path(name).resolve()
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise CheckpointError(f"checkpoint {name!r} is neither a folder nor a Hugging Face id (owner/name)")
    if revision is None:
        raise CheckpointError(f"{name} needs a pinned revision: give the commit hash or tag to serve, not a branch")
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, revision=revision, allow_patterns=["*.json", "*.safetensors", "*.txt"]))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. CheckpointError if there is none."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} can't be read as JSON: {error}") from error
    if not isinstance(contents, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(contents).__name__}")
    return contents


def _family(contents: dict[str, Any], index: Path) -> Family:
    name = contents.get("_class_name")
    if name not in FAMILIES:
        raise CheckpointError(f"{index}: _class_name={name!r} is not served; served are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[name]


def _check_component(checkpoint: Checkpoint, contents: dict[str, Any], component: str) -> None:
    folder = checkpoint.folder / component
    if component not in contents or not folder.is_dir():
        raise CheckpointError(f"{checkpoint.folder} has no {component}: the folder and its line in model_index.json")
    expected = getattr(checkpoint.family, f"{component}_class", None)
    entry = contents[component]
    if not (isinstance(entry, list) and len(entry) == 2):
        raise CheckpointError(
            f"{checkpoint.folder}/model_index.json: {component}={entry!r} must be [library, class name]"
        )
    found = entry[1]
    if expected is not None and found != expected:
        raise CheckpointError(f"{component} is a {found}; a {checkpoint.family.pipeline_class} needs a {expected}")
    if component == "tokenizer":
        if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json")):
            raise CheckpointError(f"{folder} has neither tokenizer.json nor vocab.json")
        return
    checkpoint.config(component)
    if component != "scheduler" and not any(any(folder.glob(pattern)) for pattern in WEIGHT_PATTERNS):
        raise CheckpointError(f"{folder} has no weights (*.safetensors); other formats are not read")


def _check_shapes(checkpoint: Checkpoint) -> None:
    """The numbers by which one component feeds the next."""
    transformer, vae = checkpoint.config("transformer"), checkpoint.config("vae")
    text = checkpoint.config("text_encoder")
    hidden_size = text.get("text_config", text).get("hidden_size")
    latent_channels = vae.get("z_dim")
    patch_values = checkpoint.family.patch_size**2
    _check_equal(
        "text_encoder hidden_size",
        hidden_size,
        "transformer joint_attention_dim",
        transformer.get("joint_attention_dim"),
    )
    _check_equal(
        "transformer in_channels",
        transformer.get("in_channels"),
        "4 x vae z_dim",
        patch_values * (latent_channels or 0),
    )
    _check_equal("transformer out_channels", transformer.get("out_channels"), "vae z_dim", latent_channels)
    for name in ("latents_mean", "latents_std"):
        _check_equal(f"length of vae {name}", len(vae.get(name) or ()), "vae z_dim", latent_channels)


def _check_default_size(checkpoint: Checkpoint) -> None:
    size = checkpoint.index.get(DEFAULT_SIZE_KEY, list(checkpoint.family.default_size))
    multiple = checkpoint.family.size_multiple
    is_size = isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)
    if not is_size or any(side % multiple for side in size):
        raise CheckpointError(
            f"{checkpoint.folder}/model_index.json: {DEFAULT_SIZE_KEY}={size!r} must be [height, width] in pixels, "
            f"multiples of {multiple}"
        )


def _check_equal(left_name: str, left: object, right_name: str, right: object) -> None:
    if left != right:
        raise CheckpointError(f"the components don't fit together: {left_name} is {left}, {right_name} is {right}")
