"""The training set in the device's memory: encoded pictures, their pixels and instructions; the oldest make room."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from diffusers import AutoencoderKLQwenImage

from demo.dataset import to_model_range
from demo.editing.arrangement import SIDE
from demo.editing.dataset import WORDINGS, EditBatch
from demo.editing.tokens import TEXT_TOKENS
from demo.flow import pack
from demo.pictures_only import encode_moments
from demo.tokenizer import EDIT_TEMPLATE_TOKENS

_PATCH = 16  # pixels a side of what one transformer token covers


@dataclass(frozen=True, slots=True)
class Drawn:
    """Random requests of the bank."""

    latents: torch.Tensor  # (B, 1 + R, 64, 64) packed: the right answer, then the pictures brought
    pictures: torch.Tensor  # (B, R, H, W, 3) uint8
    tokens: torch.Tensor  # (B, L)
    lengths: torch.Tensor  # (B,)
    changed: torch.Tensor  # (B, 64) bool: patches that are like no picture brought


class Encoder:
    """Pictures to standardised, packed latents, as the edit pipeline encodes them."""

    def __init__(self, vae: AutoencoderKLQwenImage, device: torch.device) -> None:
        self._vae, self._device = vae, device
        self._mean, self._std = (
            torch.tensor(values, device=device).view(1, -1, 1, 1)
            for values in (vae.config.latents_mean, vae.config.latents_std)
        )

    @torch.no_grad()
    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        """(N, H, W, 3) bytes to (N, 64, 64)."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            moments = encode_moments(self._vae, to_model_range(pictures, self._device)).float()
        return pack((moments[:, :16] - self._mean) / self._std)


class EditShelf:
    """A ring of requests with equally many pictures."""

    def __init__(self, references: int, capacity: int, device: torch.device) -> None:
        length = EDIT_TEMPLATE_TOKENS + TEXT_TOKENS[references]
        self._latents = torch.zeros(capacity, 1 + references, 64, 64, dtype=torch.bfloat16, device=device)
        self._pictures = torch.zeros(capacity, references, SIDE, SIDE, 3, dtype=torch.uint8, device=device)
        self._tokens = torch.zeros(capacity, WORDINGS, length, dtype=torch.int16, device=device)
        self._lengths = torch.full((capacity, WORDINGS), TEXT_TOKENS[references], dtype=torch.int16, device=device)
        self._changed = torch.zeros(capacity, 64, dtype=torch.bool, device=device)
        self._capacity, self._next, self.filled = capacity, 0, 0

    def add(self, batch: EditBatch, encode: Encoder) -> None:
        device = self._latents.device
        pixels = batch.pixels.to(device, non_blocking=True)
        rows = torch.arange(self._next, self._next + len(pixels), device=device) % self._capacity
        self._latents[rows] = encode(pixels.flatten(0, 1)).view(*pixels.shape[:2], 64, 64).bfloat16()
        self._pictures[rows] = pixels[:, 1:]
        self._tokens[rows], self._lengths[rows] = batch.tokens.to(device), batch.lengths.to(device)
        self._changed[rows] = changed_patches(pixels)
        self._next = (self._next + len(pixels)) % self._capacity
        self.filled = min(self._capacity, self.filled + len(pixels))

    def draw(self, count: int, generator: torch.Generator) -> Drawn:
        """Random requests, each with one of its wordings."""
        device = self._latents.device
        rows = torch.randint(max(1, self.filled), (count,), device=device, generator=generator)
        wordings = torch.randint(WORDINGS, (count,), device=device, generator=generator)
        return Drawn(
            self._latents[rows].float(),
            self._pictures[rows],
            self._tokens[rows, wordings].long(),
            self._lengths[rows, wordings].long(),
            self._changed[rows],
        )


def changed_patches(pixels: torch.Tensor) -> torch.Tensor:
    """(B, 1 + R, H, W, 3) to (B, 64): whether a patch of the first picture differs from those of all others."""
    differs = (pixels[:, :1] != pixels[:, 1:]).any(dim=-1)  # (B, R, H, W)
    grid = SIDE // _PATCH
    patches = differs.view(*differs.shape[:2], grid, _PATCH, grid, _PATCH).any(dim=5).any(dim=3)
    return patches.all(dim=1).flatten(1)
