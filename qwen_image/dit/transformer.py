"""The transformer: embedders, blocks, output projection. The blocks run on the engine that the repository names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from qwen_image.dit.blocks import BlockInputs, Blocks
from qwen_image.dit.engine import Batch, Grid
from qwen_image.dit.weights import Weights

THETA = 10_000  # of the rotary positions


class Transformer:
    """diffusers' QwenImageTransformer2DModel around blocks of our own."""

    def __init__(self, weights: Weights, blocks: Blocks) -> None:
        self._blocks = blocks
        self._zero_cond_t = weights.dimensions.zero_cond_t
        self.device = blocks.device
        self.dtype = blocks.precision.dtype
        self._outside: Any = outside_blocks(weights, self.dtype, self.device)
        self._rotary = Rotary(weights.config["axes_dims_rope"], self.device)

    @property
    def graph_misses(self) -> int:
        return 0

    def warm_up(self, grid: Grid, image_tokens: int, text_tokens: int) -> None:
        """A small picture: nothing depends on its size."""
        self.velocity(blank_batch(self._outside, 1, (4, 4), 16))

    def max_rows(self, image_tokens: int) -> int:
        """How many rows, guidance branches counted, one call may have."""
        return self._blocks.max_rows(image_tokens)

    @torch.inference_mode()
    def velocity(self, batch: Batch) -> torch.Tensor:
        """The predicted flow (noise minus picture), float32, shaped as `batch.tokens`."""
        outside = self._outside
        tokens = batch.tokens if batch.references is None else torch.cat([batch.tokens, batch.references], dim=1)
        image = outside.img_in(tokens.to(self.dtype))  # (B, L + R, dim)
        sigma = batch.sigma.to(self.device, self.dtype)
        temb = outside.time_text_embed(sigma, image)  # (B, dim)
        grids = (batch.grid, *batch.reference_grids)
        image = self._blocks.run(
            BlockInputs(
                image=image,
                text=outside.txt_in(outside.txt_norm(batch.prompt_embeds.to(self.dtype))),  # (B, T, dim)
                text_mask=batch.prompt_embeds_mask,
                temb=temb,
                image_rotary=self._rotary.image(grids),
                text_rotary=self._rotary.text(grids, batch.prompt_embeds.shape[1]),
                reference_temb=outside.time_text_embed(sigma * 0, image) if self._zero_cond_t else None,
                is_reference=self._is_reference(batch) if self._zero_cond_t else None,
            )
        )[:, : batch.tokens.shape[1]]
        predicted: torch.Tensor = outside.proj_out(outside.norm_out(image, temb))
        return predicted.float()

    def _is_reference(self, batch: Batch) -> torch.Tensor:
        """(L + R,) bool."""
        references = 0 if batch.references is None else batch.references.shape[1]
        tokens = torch.arange(batch.tokens.shape[1] + references, device=self.device)
        return tokens >= batch.tokens.shape[1]


class Rotary:
    """diffusers' rotary positions as cosines and sines, float32; the tables used last are held.

    `grids` are those of the picture and of its references, each of which is a frame of its own.
    """

    def __init__(self, axes_dims: Sequence[int], device: torch.device) -> None:
        from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope

        self._pos_embed = QwenEmbedRope(theta=THETA, axes_dim=list(axes_dims), scale_rope=True)
        self._device = device
        self.image = lru_cache(maxsize=64)(self._image)
        self.text = lru_cache(maxsize=64)(self._text)

    def _image(self, grids: tuple[Grid, ...]) -> torch.Tensor:
        """(2, tokens of all pictures, head_dim / 2)."""
        return self._tables(grids, 1)[0]

    def _text(self, grids: tuple[Grid, ...], tokens: int) -> torch.Tensor:
        """(2, tokens, head_dim / 2): text positions start where those of the largest picture end."""
        return self._tables(grids, tokens)[1]

    def _tables(self, grids: tuple[Grid, ...], text_tokens: int) -> list[torch.Tensor]:
        frames = [[(1, *grid) for grid in grids]]
        angles = self._pos_embed(frames, max_txt_seq_len=text_tokens, device=torch.device("cpu"))
        found, wanted = angles[0].shape[0], sum(rows * columns for rows, columns in grids)
        if found != wanted:  # it has 4,096 positions an axis, and cuts off what is beyond
            raise ValueError(f"grids of {' and '.join(map(str, grids))} need {wanted} positions; there are {found}")
        return [torch.stack([each.real, each.imag]).to(self._device) for each in angles]


def blank_batch(outside: Any, rows: int, grid: Grid, text_tokens: int) -> Batch:
    """Zeros, for a first computation."""
    weight = outside.img_in.weight
    tokens = torch.zeros(rows, grid[0] * grid[1], outside.img_in.in_features, device=weight.device)
    embeds = torch.zeros(rows, text_tokens, outside.txt_in.in_features, dtype=weight.dtype, device=weight.device)
    return Batch(tokens, torch.ones(rows), embeds, None, grid)


def outside_blocks(weights: Weights, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """diffusers' own modules around the blocks."""
    from diffusers import QwenImageTransformer2DModel

    with torch.device("meta"):
        module: nn.Module = QwenImageTransformer2DModel.from_config({**weights.config, "num_layers": 0})
    module.load_state_dict(weights.outside_blocks(dtype, device), assign=True)
    return module.eval()
