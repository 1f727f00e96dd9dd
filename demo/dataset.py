"""Endless captioned pictures, painted by worker processes; every batch has one size."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from demo.captions import caption
from demo.painter import paint
from demo.scenes import draw_scene

Size = tuple[int, int]  # height, width
Tokenize = Callable[[list[str]], tuple[torch.Tensor, torch.Tensor]]
MAIN_SIZE: Size = (128, 128)
OTHER_SIZES: tuple[Size, ...] = ((96, 128), (128, 96), (128, 192), (192, 128), (160, 160), (192, 192), (256, 256))
CAPTIONS_EACH = 3


@dataclass(frozen=True, slots=True)
class Batch:
    """Pictures of one size, and for each of them some wordings."""

    pixels: torch.Tensor  # (B, H, W, 3) uint8
    captions: list[tuple[str, ...]]
    tokens: torch.Tensor  # (B, wordings, L), or nothing without a tokeniser
    lengths: torch.Tensor  # (B, wordings)

    @property
    def size(self) -> Size:
        return self.pixels.shape[1], self.pixels.shape[2]


class PaintedScenes(IterableDataset[Batch]):
    """Training scenes without end; workers draw different ones."""

    def __init__(self, sizes: dict[Size, float], batch: int, seed: int, tokenize: Tokenize | None = None) -> None:
        self._sizes, self._batch, self._seed, self._tokenize = sizes, batch, seed, tokenize

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        rng = random.Random(f"{self._seed}/{worker.id if worker else 0}")
        while True:
            height, width = rng.choices(tuple(self._sizes), weights=tuple(self._sizes.values()))[0]
            yield self._draw(rng, height, width)

    def _draw(self, rng: random.Random, height: int, width: int) -> Batch:
        pixels = np.empty((self._batch, height, width, 3), np.uint8)
        captions = []
        for i in range(self._batch):
            scene = draw_scene(rng)
            pixels[i] = np.asarray(paint(scene, rng.getrandbits(60), height, width))
            captions.append(tuple(caption(rng, scene) for _ in range(CAPTIONS_EACH)))
        return Batch(torch.from_numpy(pixels), captions, *self._tokens(captions))

    def _tokens(self, captions: list[tuple[str, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
        if self._tokenize is None:
            return torch.empty(0), torch.empty(0)
        tokens, lengths = self._tokenize([text for wordings in captions for text in wordings])
        return tokens.view(len(captions), CAPTIONS_EACH, -1), lengths.view(len(captions), CAPTIONS_EACH)


def painted_batches(
    sizes: dict[Size, float], batch: int, seed: int, workers: int, tokenize: Tokenize | None = None
) -> Iterator[Batch]:
    dataset = PaintedScenes(sizes, batch, seed, tokenize)
    return iter(DataLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None))


def to_model_range(pixels: torch.Tensor, device: torch.device) -> torch.Tensor:
    """(B, H, W, 3) bytes to (B, 3, H, W) in [-1, 1]."""
    return pixels.to(device, non_blocking=True).permute(0, 3, 1, 2).float() / 127.5 - 1
