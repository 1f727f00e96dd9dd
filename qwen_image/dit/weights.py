"""The transformer's weights, read tensor by tensor from the checkpoint's files: never the whole at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors import safe_open

from qwen_image.checkpoint import read_json
from qwen_image.dit.block import Block
from qwen_image.errors import CheckpointError

if TYPE_CHECKING:
    from qwen_image.checkpoint import Checkpoint

BLOCK = re.compile(r"transformer_blocks\.(\d+)\.(.+)")
INDEX = "*.safetensors.index.json"  # of the files that a checkpoint is split into


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Of a transformer's stack of blocks."""

    num_layers: int
    heads: int
    head_dim: int
    zero_cond_t: bool = False  # reference tokens are modulated as at noise level 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Dimensions:
        return cls(
            config["num_layers"],
            config["num_attention_heads"],
            config["attention_head_dim"],
            bool(config.get("zero_cond_t", False)),
        )

    @property
    def dim(self) -> int:
        """Width of the token streams."""
        return self.heads * self.head_dim


class Weights(Protocol):
    """Where a transformer's tensors come from."""

    config: Mapping[str, Any]  # transformer/config.json
    dimensions: Dimensions

    def block(self, index: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        """The tensors of one block under their names within it."""
        ...

    def outside_blocks(self, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        """Embedders, output norm and projection."""
        ...


class CheckpointWeights:
    """What lies in `transformer/*.safetensors`, one file or several; read when asked for, and not held."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.folder / "transformer"
        self.config: Mapping[str, Any] = checkpoint.config("transformer")
        self.dimensions = Dimensions.from_config(self.config)

    @cached_property
    def files(self) -> dict[str, Path]:
        """Which file holds which tensor. CheckpointError for a tensor in two files, or a file that is not there."""
        found: dict[str, Path] = {}
        for path in self._paths():
            if not path.is_file():
                raise CheckpointError(f"{path}, which the index beside it names, is missing")
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - a file of tensors is no mapping
                    if name in found:
                        raise CheckpointError(f"{name} is in {found[name]} and in {path.name}: remove one of the files")
                    found[name] = path
        return found

    def _paths(self) -> list[Path]:
        """Those that the index names; without one all files."""
        indices = sorted(self._folder.glob(INDEX))
        if len(indices) > 1:
            names = ", ".join(path.name for path in indices)
            raise CheckpointError(f"{self._folder} has several indices, {names}: leave the one that is to be served")
        if not indices:
            return sorted(self._folder.glob("*.safetensors"))
        named = read_json(indices[0]).get("weight_map")
        if not isinstance(named, dict):
            raise CheckpointError(f"{indices[0]} has no weight_map")
        return [self._folder / name for name in sorted(set(named.values()))]

    def block(self, index: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        """CheckpointError, with its name, for a tensor that the block lacks."""
        names = {match[2]: name for name in self.files if (match := BLOCK.fullmatch(name)) and int(match[1]) == index}
        with torch.device("meta"):
            wanted = dict(Block(self.dimensions.dim, self.dimensions.heads).named_parameters())
        if missing := sorted(wanted.keys() - names.keys()):
            raise CheckpointError(
                f"{self._folder} lacks {', '.join(missing)} of block {index}; its configuration has "
                f"{self.dimensions.num_layers} blocks: is the checkpoint whole?"
            )
        return {
            local: tensor.to(device, dtype) for local, tensor in zip(names, self._read(names.values()), strict=True)
        }

    def outside_blocks(self, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        names = [name for name in self.files if not BLOCK.fullmatch(name)]
        return {name: tensor.to(device, dtype) for name, tensor in zip(names, self._read(names), strict=True)}

    def _read(self, names: Iterable[str]) -> Iterator[torch.Tensor]:
        for name in names:
            with safe_open(self.files[name], framework="pt") as file:
                yield file.get_tensor(name)
