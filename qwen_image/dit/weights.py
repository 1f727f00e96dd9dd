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

from qwen_image.checkpoint.weight_checks import checked_tensors

if TYPE_CHECKING:
    from qwen_image.checkpoint import Checkpoint

BLOCK = re.compile(r"transformer_blocks\.(\d+)\.(.+)")


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
    """What lies in the files of `transformer/`; read when asked for, and not held."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.config: Mapping[str, Any] = checkpoint.config("transformer")
        self.dimensions = Dimensions.from_config(self.config)

    @cached_property
    def files(self) -> dict[str, Path]:
        """Which file holds which tensor. CheckpointError unless they are those that the configuration asks for."""
        return {name: tensor.path for name, tensor in checked_tensors(self._checkpoint, "transformer").items()}

    def block(self, index: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        names = {match[2]: name for name in self.files if (match := BLOCK.fullmatch(name)) and int(match[1]) == index}
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
