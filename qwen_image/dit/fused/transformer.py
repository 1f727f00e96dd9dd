"""The transformer as one recorded step, in bfloat16 or FP8."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from qwen_image.dit.engine import Batch, Grid
from qwen_image.dit.fp8 import quantised
from qwen_image.dit.fused.attention import Attention
from qwen_image.dit.fused.beside import Beside
from qwen_image.dit.fused.block import FusedBlock, Stream, run_blocks
from qwen_image.dit.fused.graphs import Graphs, Inputs
from qwen_image.dit.fused.kernels import NO_REFERENCES
from qwen_image.dit.fused.modulations import IMAGE, TEXT, Modulations
from qwen_image.dit.precision import Precision
from qwen_image.dit.transformer import Rotary, blank_batch, outside_blocks
from qwen_image.dit.weights import Weights


class FusedTransformer:
    """`Transformer` for a GPU. On a CPU it has no graphs. `max_batch_tokens` bounds the image tokens of a call."""

    def __init__(
        self, weights: Weights, *, precision: Precision, device: str | torch.device, max_batch_tokens: int
    ) -> None:
        self.device, self.dtype = torch.device(device), precision.dtype
        self._dimensions, self._max_batch_tokens = weights.dimensions, max_batch_tokens
        self._outside: Any = outside_blocks(weights, self.dtype, self.device)
        self._rotary = Rotary(weights.config["axes_dims_rope"], self.device)
        self._modulations = Modulations(self._outside, self.dtype, self.device)
        self._blocks = [self._load(weights, index, precision) for index in range(weights.dimensions.num_layers)]
        self._attention = Attention(self.device)
        self._beside = Beside(self.device)
        self._graphs = Graphs() if self.device.type == "cuda" else None

    def _load(self, weights: Weights, index: int, precision: Precision) -> FusedBlock:
        tensors = weights.block(index, self.dtype, self.device)
        self._modulations.add_block(tensors)
        return FusedBlock(quantised(tensors) if precision is Precision.FP8 else tensors)

    @property
    def graph_misses(self) -> int:
        """How many shapes had to be recorded."""
        return 0 if self._graphs is None else self._graphs.misses

    def warm_up(self, grid: Grid, image_tokens: int, text_tokens: int) -> None:
        """Record the largest call, whose memory the others share; then `grid` with every length of text.

        The largest: as many rows as a call may have, or a guided image's two, which are never parted.
        """
        side = math.isqrt(image_tokens)
        for of_picture in ((side, image_tokens // side), grid):
            rows = max(2, self.max_rows(of_picture[0] * of_picture[1]))
            self.velocity(blank_batch(self._outside, rows, of_picture, text_tokens))
        for text in text_buckets(text_tokens):
            for rows in (2, 1):  # with guidance and without
                self.velocity(blank_batch(self._outside, rows, grid, text))

    def max_rows(self, image_tokens: int) -> int:
        """How many rows, guidance branches counted, one call may have."""
        return self._max_batch_tokens // image_tokens

    @torch.inference_mode()
    def velocity(self, batch: Batch) -> torch.Tensor:
        """The predicted flow (noise minus picture), float32, shaped as `batch.tokens`."""
        rows, tokens = batch.tokens.shape[:2]
        text_tokens = text_bucket(batch.prompt_embeds.shape[1])
        grids = (batch.grid, *batch.reference_grids)
        levels = [*batch.sigma.tolist(), *([0.0] if self._dimensions.zero_cond_t else [])]
        image = batch.tokens if batch.references is None else torch.cat([batch.tokens, batch.references], dim=1)
        inputs = {
            "image": image,
            "prompt_embeds": functional.pad(
                batch.prompt_embeds.to(self.dtype), (0, 0, 0, text_tokens - batch.prompt_embeds.shape[1])
            ),
            "text_tokens": _text_tokens(batch, rows, self.device),
            "modulations": self._modulations.at(levels),
            "image_rotary": self._rotary.image(grids),
            "text_rotary": self._rotary.text(grids, text_tokens),
        }
        if self._graphs is None:
            return self._compute(inputs, tokens)
        return self._graphs.run(lambda held: self._compute(held, tokens), inputs, tokens)

    def _compute(self, inputs: Inputs, tokens: int) -> torch.Tensor:
        """The velocity of the first `tokens` of a row; those after them are its references."""
        outside, modulations = self._outside, inputs["modulations"]
        first_reference = tokens if self._dimensions.zero_cond_t else NO_REFERENCES
        image = Stream(
            outside.img_in(inputs["image"].to(self.dtype)),  # (R, L, dim)
            inputs["image_rotary"],
            modulations,
            IMAGE,
            first_reference,
        )
        text = Stream(
            outside.txt_in(outside.txt_norm(inputs["prompt_embeds"])),  # (R, T, dim)
            inputs["text_rotary"],
            modulations,
            TEXT,
        )
        rows, image_tokens, _ = image.tokens.shape
        padded = text.tokens.shape[1]
        heads, head_dim = self._dimensions.heads, self._dimensions.head_dim
        joint = image.tokens.new_empty((3, rows, image_tokens + padded, heads, head_dim))
        lengths = inputs["text_tokens"] + image_tokens
        result = run_blocks(self._blocks, image, text, joint, lengths, self._attention, self._beside).values
        predicted: torch.Tensor = outside.proj_out(result.unflatten(0, (rows, -1))[:, :tokens])
        return predicted.float()


def text_bucket(tokens: int) -> int:
    """To how many tokens a text is padded: to few lengths, each recorded once, and none much longer than the text."""
    step = 64 if tokens <= 256 else 128 if tokens <= 1024 else 512
    return -(-tokens // step) * step


def text_buckets(most: int) -> list[int]:
    """Every length that texts of up to `most` tokens are padded to."""
    return sorted({text_bucket(tokens) for tokens in range(1, most + 1)})


def _text_tokens(batch: Batch, rows: int, device: torch.device) -> torch.Tensor:
    """(R,) int32."""
    if batch.prompt_embeds_mask is not None:
        return batch.prompt_embeds_mask.sum(dim=1, dtype=torch.int32)
    return torch.full((rows,), batch.prompt_embeds.shape[1], dtype=torch.int32, device=device)
