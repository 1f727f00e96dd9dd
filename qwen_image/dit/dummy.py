"""Random weights of a transformer's full size, made where they are used: no files, for measurements and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from qwen_image.dit.block import Block
from qwen_image.dit.weights import Dimensions

STANDARD_DEVIATION = 0.02  # of trained linear layers, about; norms are ones. 60 blocks of it stay near 1 in bfloat16


class DummyWeights:
    """Weights of a configuration, the same for the same block every time."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.dimensions = Dimensions.from_config(config)

    def block(self, index: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        with torch.device("meta"):
            block = Block(self.dimensions.dim, self.dimensions.heads)
        return _filled(block, index, dtype, device)

    def outside_blocks(self, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        from diffusers import QwenImageTransformer2DModel

        with torch.device("meta"):
            outside = QwenImageTransformer2DModel.from_config({**self.config, "num_layers": 0})
        return _filled(outside, self.dimensions.num_layers, dtype, device)


def _filled(module: nn.Module, seed: int, dtype: torch.dtype, device: str | torch.device) -> dict[str, torch.Tensor]:
    generator = torch.Generator(device).manual_seed(seed)
    return {
        name: torch.ones(each.shape, dtype=dtype, device=device)
        if name.endswith("weight") and each.dim() == 1
        else torch.empty(each.shape, dtype=dtype, device=device).normal_(0, STANDARD_DEVIATION, generator=generator)
        for name, each in module.named_parameters()
    }
