"""The stack of blocks, whatever runs it: what every block engine takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import torch

from qwen_image.dit.block import Block
from qwen_image.dit.fp8 import quantised, with_fp8_layers
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Dimensions, Weights


@dataclass(frozen=True, slots=True)
class BlockInputs:
    """B rows, L image tokens, T text tokens. The names are those of the exported graph's inputs."""

    image: torch.Tensor  # (B, L, dim)
    text: torch.Tensor  # (B, T, dim)
    text_mask: torch.Tensor | None  # (B, T) bool, False where padded; None when nothing is
    temb: torch.Tensor  # (B, dim), the embedded noise level
    image_rotary: torch.Tensor  # (2, L, head_dim / 2) float32, cosines and sines
    text_rotary: torch.Tensor  # (2, T, head_dim / 2) float32
    reference_temb: torch.Tensor | None = None  # (B, dim), with zero_cond_t only
    is_reference: torch.Tensor | None = None  # (L,) bool, with zero_cond_t only


class Blocks(Protocol):
    """All blocks of a transformer, loaded."""

    device: torch.device
    precision: Precision

    def run(self, inputs: BlockInputs) -> torch.Tensor:
        """The image tokens after the last block, (B, L, dim)."""
        ...

    def max_rows(self, image_tokens: int) -> int:
        """How many rows of that many image tokens one call may have."""
        ...


class TorchBlocks:
    """The blocks in PyTorch. `max_batch_tokens` bounds the image tokens of a call."""

    def __init__(
        self,
        weights: Weights,
        *,
        precision: Precision = Precision.FP32,
        device: str | torch.device = "cpu",
        max_batch_tokens: int = 65_536,
    ) -> None:
        self.device = torch.device(device)
        self.precision = precision
        self._max_batch_tokens = max_batch_tokens
        self._blocks = [self._load(weights, index) for index in range(weights.dimensions.num_layers)]

    def _load(self, weights: Weights, index: int) -> Block:
        block = empty_block(weights.dimensions, self.precision)
        block.load_state_dict(block_tensors(weights, index, self.precision, self.device), assign=True)
        return block.eval()

    def run(self, inputs: BlockInputs) -> torch.Tensor:
        image, text = inputs.image, inputs.text
        for block in self._blocks:
            image, text = block(
                image,
                text,
                inputs.text_mask,
                inputs.temb,
                inputs.image_rotary,
                inputs.text_rotary,
                inputs.reference_temb,
                inputs.is_reference,
            )
        return image

    def max_rows(self, image_tokens: int) -> int:
        return self._max_batch_tokens // image_tokens


def empty_block(dimensions: Dimensions, precision: Precision) -> Block:
    """A block of these dimensions without values, on the meta device."""
    with torch.device("meta"):
        block = Block(dimensions.dim, dimensions.heads)
        if precision is Precision.FP8:
            block = with_fp8_layers(block)
    for parameter in block.parameters():
        if parameter.dtype is torch.float32:
            parameter.data = parameter.data.to(precision.dtype)
    return block


def block_tensors(
    weights: Weights, index: int, precision: Precision, device: str | torch.device = "cpu"
) -> dict[str, torch.Tensor]:
    """The tensors that `empty_block`'s parameters want, by name."""
    tensors = weights.block(index, precision.dtype, device)
    return quantised(tensors) if precision is Precision.FP8 else tensors


def graph_inputs(inputs: BlockInputs) -> dict[str, torch.Tensor]:
    """What a compiled block takes: every tensor by its name, the mask always there."""
    mask = inputs.text_mask
    if mask is None:
        mask = torch.ones(inputs.text.shape[:2], dtype=torch.bool, device=inputs.text.device)
    given = {each.name: getattr(inputs, each.name) for each in fields(inputs)} | {"text_mask": mask}
    return {name: tensor for name, tensor in given.items() if tensor is not None}
