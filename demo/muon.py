"""Muon: momentum whose matrices are made orthogonal before the step; equal shapes are treated as one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import nn

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_RMS = 0.4  # a step's root mean square per unit of learning rate: twice AdamW's


class Muon:
    """For the inner matrices of a network; embeddings, norms, biases and outer layers belong to AdamW."""

    def __init__(self, matrices: Iterable[nn.Parameter], momentum: float = 0.95, weight_decay: float = 0.01) -> None:
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for matrix in matrices:
            by_shape[matrix.shape].append(matrix)
        self._groups = list(by_shape.values())
        self.momenta = [torch.zeros_like(torch.stack([p.detach() for p in group])) for group in self._groups]
        self._momentum, self._weight_decay = momentum, weight_decay

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        for group, velocity in zip(self._groups, self.momenta, strict=True):
            # The last block's text output leads nowhere, so it has no gradient.
            gradients = torch.stack([torch.zeros_like(p) if p.grad is None else p.grad for p in group])
            velocity.lerp_(gradients, 1 - self._momentum)
            update = orthogonal(gradients.lerp(velocity, self._momentum))
            update *= -learning_rate * _RMS * max(update.shape[1:]) ** 0.5
            torch._foreach_mul_(group, 1 - learning_rate * self._weight_decay)
            torch._foreach_add_(group, list(update.to(group[0].dtype).unbind()))


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """(N, R, C): each matrix's nearest semi-orthogonal one, roughly, by Newton-Schulz iteration."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.bfloat16()
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).float()
