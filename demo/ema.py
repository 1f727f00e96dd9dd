"""An exponential moving average of a module's weights."""

from __future__ import annotations

import torch
from torch import nn


class MovingAverage:
    """Follows the weights slowly; early on it follows faster, so that the start is soon forgotten."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._live = list(module.parameters())
        self._names = [name for name, _ in module.named_parameters()]
        self._slow = [parameter.detach().clone() for parameter in self._live]
        self._decay, self._steps = decay, 0

    @torch.no_grad()
    def update(self) -> None:
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (10 + self._steps))
        torch._foreach_lerp_(self._slow, self._live, 1 - decay)

    def state(self) -> dict[str, torch.Tensor]:
        return dict(zip(self._names, self._slow, strict=True))

    def load(self, state: dict[str, torch.Tensor], steps: int) -> None:
        self._steps = steps
        for name, slow in zip(self._names, self._slow, strict=True):
            slow.copy_(state[name])
