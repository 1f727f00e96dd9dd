"""What compiled block engines share: one engine for all blocks, each block's weights handed to it as inputs.

So one build serves every block, a checkpoint's weights are read from its own files into memory once, and other weights
of the same architecture need no other engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from qwen_image.dit.blocks import BlockInputs, block_tensors, graph_inputs
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Weights
from qwen_image.engines.manifest import Manifest
from qwen_image.engines.profiles import check_covered, chosen, max_rows
from qwen_image.errors import EngineError


class CompiledBlocks(ABC):
    """Blocks run by an engine with optimisation profiles."""

    def __init__(self, manifest: Manifest, weights: Weights, *, precision: Precision, device: torch.device) -> None:
        self.device = device
        self.precision = precision
        self.profiles = manifest.block_profiles
        self._weights = [
            _checked(block_tensors(weights, index, precision, device), manifest)
            for index in range(weights.dimensions.num_layers)
        ]

    def max_rows(self, image_tokens: int) -> int:
        return max_rows(self.profiles, image_tokens)

    def check_covers(self, image_tokens: tuple[int, int], max_text_tokens: int) -> None:
        check_covered(self.profiles, image_tokens=image_tokens, max_text_tokens=max_text_tokens)

    def run(self, inputs: BlockInputs) -> torch.Tensor:
        """The image tokens after the last block. InvalidRequest if no profile holds the call."""
        rows, image_tokens, _ = inputs.image.shape
        profile = chosen(self.profiles, rows, image_tokens, inputs.text.shape[1])
        return self._run(profile, graph_inputs(inputs), self._weights)

    @abstractmethod
    def _run(
        self, profile: int, inputs: dict[str, torch.Tensor], blocks: list[dict[str, torch.Tensor]]
    ) -> torch.Tensor:
        """All blocks, one after the other, each with its weights."""


def _checked(tensors: dict[str, torch.Tensor], manifest: Manifest) -> dict[str, torch.Tensor]:
    """EngineError unless the tensors are those the engine takes."""
    found = {name: [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for name, tensor in tensors.items()}
    if found != manifest.weights:
        differing = [
            f"{name} is {found.get(name)}, wanted {manifest.weights.get(name)}"
            for name in sorted(found.keys() | manifest.weights.keys())
            if found.get(name) != manifest.weights.get(name)
        ]
        raise EngineError(f"the checkpoint's blocks don't fit the engine: {'; '.join(differing)}")
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
