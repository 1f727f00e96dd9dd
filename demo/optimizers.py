"""Muon for the inner matrices, AdamW for the rest, under one learning rate."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from demo.muon import Muon

_INNER = ("transformer_blocks.", "language_model.layers.")
_CLIP = 1.0


class Optimizers:
    """Both optimizers of a model; a vision tower that pictures never reach has none."""

    def __init__(self, model: nn.Module, *, sees_pictures: bool = False) -> None:
        learned = {name: p for name, p in model.named_parameters() if sees_pictures or ".visual." not in name}
        inner = {name for name, p in learned.items() if p.dim() == 2 and any(part in name for part in _INNER)}
        self._all = list(learned.values())
        self._muon = Muon(learned[name] for name in sorted(inner))
        rest = [p for name, p in learned.items() if name not in inner]
        self._adam = torch.optim.AdamW(rest, betas=(0.9, 0.98), weight_decay=0.0)

    def step(self, learning_rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self._all, _CLIP)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        self._muon.step(learning_rate)
        self._adam.zero_grad()
        for parameter in self._all:
            parameter.grad = None

    def state(self) -> dict[str, Any]:
        return {"adam": self._adam.state_dict(), "muon": self._muon.momenta}

    def load(self, state: dict[str, Any]) -> None:
        self._adam.load_state_dict(state["adam"])
        for mine, saved in zip(self._muon.momenta, state["muon"], strict=True):
            mine.copy_(saved)
