"""What a linear layer takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Tokens of a stream, (M, K): in bfloat16, or in FP8 with a scale each."""

    values: torch.Tensor  # (M, K)
    scale: torch.Tensor | None = None  # (M, 1) float32: what `values` are to be multiplied by

    def part(self, batch: int, first: int) -> Rows:
        """Of every one of `batch` equal parts the rows from `first` on."""
        scale = None if self.scale is None else _part(self.scale, batch, first)
        return Rows(_part(self.values, batch, first), scale)

    def chunks(self, most: int) -> Iterator[Rows]:
        """All rows in order, at most so many at a time."""
        for start in range(0, self.values.shape[0], most):
            end = start + most
            yield Rows(self.values[start:end], None if self.scale is None else self.scale[start:end])


def _part(rows: torch.Tensor, batch: int, first: int) -> torch.Tensor:
    part: torch.Tensor = rows.unflatten(0, (batch, -1))[:, first:].flatten(0, 1)
    return part
