"""Shifts, scales and gates of all blocks. They depend on the noise level alone: those used last are held.

At full size they are 13.6 GB of weights to read for 4.4 MB of numbers, at every step, and images of one size and number
of steps pass the same levels.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

IMAGE, TEXT, PER_BLOCK = 0, 6, 12  # a block's: shift, scale, gate, shift, scale, gate of a stream; then of the other
MAX_LEVELS = 256


class Modulations:
    """Of a transformer; `outside` are diffusers' modules around the blocks."""

    def __init__(self, outside: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._outside, self._dtype, self._device = outside, dtype, device
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._held: OrderedDict[float, torch.Tensor] = OrderedDict()

    def add_block(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take the next block's modulation layers."""
        for name in ("img_mod.1", "txt_mod.1"):
            self._layers.append((tensors[f"{name}.weight"], tensors[f"{name}.bias"]))

    def at(self, sigmas: Sequence[float]) -> torch.Tensor:
        """(PER_BLOCK · blocks + 2, len(sigmas), dim); the last two are shift and scale of the output's norm."""
        # Rounded, as the model sees them: sizes and step counts have few levels of their own then.
        levels = torch.tensor(sigmas, dtype=torch.float32).to(self._dtype).tolist()
        return torch.stack([self._at(level) for level in levels], dim=1)

    def _at(self, level: float) -> torch.Tensor:
        found = self._held.pop(level, None)
        self._held[level] = found = self._computed(level) if found is None else found
        if len(self._held) > MAX_LEVELS:
            self._held.popitem(last=False)
        return found

    def _computed(self, level: float) -> torch.Tensor:
        """(PER_BLOCK · blocks + 2, dim)."""
        sigma = torch.tensor([level], device=self._device, dtype=self._dtype)
        temb = self._outside.time_text_embed(sigma, sigma)  # (1, dim)
        embedded = functional.silu(temb)
        of_blocks = [functional.linear(embedded, weight, bias).view(6, -1) for weight, bias in self._layers]
        scale, shift = self._outside.norm_out.linear(embedded).view(2, -1)
        return torch.cat([*of_blocks, torch.stack([shift, scale])])
