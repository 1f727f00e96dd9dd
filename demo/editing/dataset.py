"""Endless painted edits, made by worker processes; every batch has equally many pictures a request."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import Qwen2Tokenizer

from demo.editing.arrangement import SIDE, paint_arrangement
from demo.editing.edits import Edit, draw_edit
from demo.editing.instructions import instruct
from demo.editing.tokens import tokenize_instructions

WORDINGS = 3
SHARES = {1: 0.8, 2: 0.2}  # of batches, by the number of pictures


@dataclass(frozen=True, slots=True)
class EditBatch:
    """Requests and their answers."""

    pixels: torch.Tensor  # (B, 1 + R, H, W, 3) uint8: the right answer, then the pictures brought
    tokens: torch.Tensor  # (B, wordings, L) int16
    lengths: torch.Tensor  # (B, wordings) int16

    @property
    def references(self) -> int:
        return self.pixels.shape[1] - 1


def paint_batch(
    rng: random.Random, edits: list[Edit], tokenizer: Qwen2Tokenizer, wordings: int = WORDINGS
) -> EditBatch:
    references = len(edits[0].sources)
    pixels = np.empty((len(edits), 1 + references, SIDE, SIDE, 3), np.uint8)
    for row, edit in zip(pixels, edits, strict=True):
        for picture, arrangement in zip(row, (edit.target, *edit.sources), strict=True):
            picture[:] = np.asarray(paint_arrangement(arrangement))
    prompts = [instruct(rng, edit) for edit in edits for _ in range(wordings)]
    tokens, lengths = tokenize_instructions(tokenizer, prompts, references)
    shape = (len(edits), wordings)
    return EditBatch(torch.from_numpy(pixels), tokens.view(*shape, -1), lengths.view(shape))


class PaintedEdits(IterableDataset[EditBatch]):
    """Training edits without end; workers draw different ones."""

    def __init__(self, batch: int, seed: int, tokenizer: Qwen2Tokenizer) -> None:
        self._batch, self._seed, self._tokenizer = batch, seed, tokenizer

    def __iter__(self) -> Iterator[EditBatch]:
        worker = get_worker_info()
        rng = random.Random(f"edits/{self._seed}/{worker.id if worker else 0}")
        while True:
            references = rng.choices(tuple(SHARES), weights=tuple(SHARES.values()))[0]
            edits = [draw_edit(rng, references) for _ in range(self._batch)]
            yield paint_batch(rng, edits, self._tokenizer)


class Collector:
    """Takes batches out of the workers' hands into ordinary memory, in a thread, while something else is at work."""

    def __init__(self, batch: int, seed: int, workers: int, tokenizer: Qwen2Tokenizer, most: int) -> None:
        """At most `most` batches wait."""
        dataset = PaintedEdits(batch, seed, tokenizer)
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None)
        self._batches = iter(loader)
        self._waiting: queue.Queue[EditBatch | BaseException] = queue.Queue(most)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        while not self._stopped.is_set():
            try:
                taken = next(self._batches)
                item: EditBatch | BaseException = EditBatch(*(getattr(taken, f.name).clone() for f in fields(taken)))
            except BaseException as error:
                item = error
            while not self._stopped.is_set():
                try:
                    self._waiting.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if isinstance(item, BaseException):
                return

    def take(self) -> EditBatch:
        return self._checked(self._waiting.get(timeout=300))

    def take_if_ready(self) -> EditBatch | None:
        try:
            return self._checked(self._waiting.get_nowait())
        except queue.Empty:
            return None

    @property
    def ready(self) -> int:
        return self._waiting.qsize()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    @staticmethod
    def _checked(item: EditBatch | BaseException) -> EditBatch:
        if isinstance(item, BaseException):
            raise RuntimeError("painting failed") from item
        return item
