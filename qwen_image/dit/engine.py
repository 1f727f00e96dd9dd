"""What every engine of the transformer takes and gives, whatever it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one picture size, ready for the transformer. B rows, L image tokens, T text tokens (right-padded)."""

    tokens: torch.Tensor  # (B, L, in_channels) float32
    sigma: torch.Tensor  # (B,) float32, the noise level in [0, 1]
    prompt_embeds: torch.Tensor  # (B, T, joint_attention_dim), zero where padded
    prompt_embeds_mask: torch.Tensor | None  # (B, T) bool, False where padded; None when nothing is
    grid: tuple[int, int]  # token rows and columns of the picture: L = rows * columns


class Engine(Protocol):
    """A loaded transformer."""

    device: torch.device
    dtype: torch.dtype

    def velocity(self, batch: Batch) -> torch.Tensor:
        """The predicted flow (noise minus picture), float32, shaped as `batch.tokens`."""
        ...

    def max_rows(self, image_tokens: int) -> int:
        """How many rows of that many image tokens one batch may have."""
        ...
