"""What every engine of the transformer takes and gives, whatever it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

Grid = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one picture size, ready for the transformer. B rows, L image tokens, T text tokens (right-padded)."""

    tokens: torch.Tensor  # (B, L, in_channels) float32
    sigma: torch.Tensor  # (B,) float32, the noise level in [0, 1]; on the CPU
    prompt_embeds: torch.Tensor  # (B, T, joint_attention_dim), zero where padded
    prompt_embeds_mask: torch.Tensor | None  # (B, T) bool, False where padded; None when nothing is
    grid: Grid  # token rows and columns of the picture: L = rows * columns
    references: torch.Tensor | None = None  # (B, R, in_channels) float32, tokens of pictures to look at
    reference_grids: tuple[Grid, ...] = ()  # of each of those pictures, in the order of their tokens


class Engine(Protocol):
    """A loaded transformer."""

    device: torch.device
    dtype: torch.dtype

    @property
    def graph_misses(self) -> int:
        """How many shapes had to be recorded so far; 0 where nothing is recorded."""
        ...

    def warm_up(self, grid: Grid, image_tokens: int, text_tokens: int) -> None:
        """Compute once, so that no request finds anything out: a picture of `grid`, and the largest call.

        `image_tokens` and `text_tokens` are the most that a row may have. If memory is short, it fails here.
        """
        ...

    def velocity(self, batch: Batch) -> torch.Tensor:
        """The predicted flow (noise minus picture), float32, shaped as `batch.tokens`."""
        ...

    def max_rows(self, image_tokens: int) -> int:
        """How many rows of that many image tokens one batch may have."""
        ...
