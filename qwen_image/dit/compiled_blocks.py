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
from qwen_image.engines.manifest import REBUILD, Manifest
from qwen_image.engines.profiles import chosen, max_rows
from qwen_image.errors import EngineError


class CompiledBlocks(ABC):
    """Blocks run by an engine with optimisation profiles. The engine is loaded first, then `_read_weights` is called:
    what is wrong with an engine is known before the weights, tens of gigabytes, are read."""

    def __init__(self, manifest: Manifest, device: torch.device) -> None:
        self.device = device
        self.precision = Precision(manifest.precision)
        self.profiles = manifest.block_profiles
        self._manifest = manifest
        self._weights: list[dict[str, torch.Tensor]] = []

    def _read_weights(self, weights: Weights) -> None:
        """EngineError unless every block's tensors are those the engine takes."""
        for index in range(weights.dimensions.num_layers):
            tensors = block_tensors(weights, index, self.precision, self.device)
            check_weights(tensors, self._manifest, index)
            self._weights.append({name: tensor.contiguous() for name, tensor in tensors.items()})

    def max_rows(self, image_tokens: int) -> int:
        return max_rows(self.profiles, image_tokens)

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


def check_weights(tensors: dict[str, torch.Tensor], manifest: Manifest, block: int) -> None:
    """EngineError, with the tensors that differ, unless a block's names, dtypes and shapes are the engine's."""
    found = {name: [dtype_name(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    differing = [
        f"{name} is {found.get(name)}, wanted {manifest.weights.get(name)}"
        for name in sorted(found.keys() | manifest.weights.keys())
        if found.get(name) != manifest.weights.get(name)
    ]
    if differing:
        raise EngineError(
            f"block {block} of the checkpoint does not fit the engine: {'; '.join(differing)}: {REBUILD}, from an ONNX "
            "file of this checkpoint"
        )


def dtype_name(dtype: torch.dtype) -> str:
    """As manifests have it: float32."""
    return str(dtype).removeprefix("torch.")
