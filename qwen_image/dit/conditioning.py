"""What the transformer's side keeps of an image while it is made, so that it travels once and not with every step."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch

from qwen_image.dit.engine import Grid
from qwen_image.errors import NotHeld


@dataclass(frozen=True, slots=True)
class Start:
    """The picture that an image is made from, as tokens (L, channels) float32."""

    latents: torch.Tensor
    noise: torch.Tensor  # what it is mixed with
    mask: torch.Tensor | None  # 1 where it may change, 0 where it is kept; None: everywhere


@dataclass(frozen=True, slots=True)
class Conditioning:
    """Of one image, on the engine's device, text states in its dtype. No negative tokens: no guidance."""

    embeds: torch.Tensor  # (T, dim)
    negative_embeds: torch.Tensor  # (T', dim)
    references: torch.Tensor | None = None  # (R, channels) float32, tokens of the pictures to look at
    reference_grids: tuple[Grid, ...] = ()  # token rows and columns of each of them
    start: Start | None = None

    @property
    def num_bytes(self) -> int:
        start = () if self.start is None else (self.start.latents, self.start.noise, self.start.mask)
        tensors = (self.embeds, self.negative_embeds, self.references, *start)
        return sum(each.numel() * each.element_size() for each in tensors if each is not None)


class ConditioningStore:
    """Those used last, up to a number of bytes. Losing one costs its sender one more call."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[str, Conditioning] = OrderedDict()
        self._bytes = 0

    def put(self, image_id: str, conditioning: Conditioning) -> None:
        """Keep it, and let the ones go that were used longest ago; the newest always stays."""
        self._drop(image_id)
        self._held[image_id] = conditioning
        self._bytes += conditioning.num_bytes
        while self._bytes > self._max_bytes and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def get(self, image_id: str) -> Conditioning:
        """NotHeld if it was never put or had to go."""
        try:
            self._held.move_to_end(image_id)
        except KeyError:
            raise NotHeld(
                f"the text states of image_id={image_id!r} are not held here: send them with the call"
            ) from None
        return self._held[image_id]

    def _drop(self, image_id: str) -> None:
        if image_id in self._held:
            self._bytes -= self._held.pop(image_id).num_bytes
