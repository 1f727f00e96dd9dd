"""The text encoder's vision tower for many square pictures at once; weights and results are its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb_vision

from demo.editing.tokens import PICTURE_GRID

_PATCH, _MERGE = 14, 2
_SIDE = PICTURE_GRID * _MERGE * _PATCH
# Of OpenAI's CLIP, as in Qwen2-VL's preprocessor.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def to_patches(pictures: torch.Tensor) -> torch.Tensor:
    """(B, R, H, W, 3) bytes to the preprocessor's patches (B, R, N, 3 * 2 * 14 * 14), those of one token together."""
    pixels = pictures.flatten(0, 1).permute(0, 3, 1, 2).float()
    for size in ((pixels.shape[2], _SIDE), (_SIDE, _SIDE)):  # as bytes are resized: row by row, then column by column
        pixels = functional.interpolate(pixels, size, mode="bicubic", antialias=True).round().clamp(0, 255)
    mean, std = (pixels.new_tensor(values).view(1, 3, 1, 1) for values in (_MEAN, _STD))
    pixels = (pixels / 255 - mean) / std
    split = pixels.view(-1, 3, PICTURE_GRID, _MERGE, _PATCH, PICTURE_GRID, _MERGE, _PATCH)
    patches = split.permute(0, 2, 5, 3, 6, 1, 4, 7)  # (B, rows, columns, 2, 2, 3, 14, 14)
    twice = patches.unsqueeze(6).expand(*patches.shape[:6], 2, _PATCH, _PATCH)  # a picture is a video of two frames
    return twice.reshape(*pictures.shape[:2], -1, 3 * 2 * _PATCH * _PATCH)


def see(tower: nn.Module, patches: torch.Tensor) -> torch.Tensor:
    """Patches (B, N, 1176) to what stands for a picture among the words, (B, N / 4, dim)."""
    x = functional.linear(patches, tower.patch_embed.proj.weight.flatten(1))
    rotary = tower.rotary_pos_emb(x, _patch_places(x.device))
    for index, block in enumerate(tower.blocks):
        if index not in tower.fullatt_block_indexes:
            raise ValueError(f"block {index} attends within windows; here every block must see the whole picture")
        x = x + _attend(block.attn, block.norm1(x), rotary)
        x = x + block.mlp(block.norm2(x))
    states: torch.Tensor = tower.merger(x)
    return states.view(len(patches), PICTURE_GRID**2, -1)


def _patch_places(device: torch.device) -> torch.Tensor:
    """(N, 2): row and column of every patch, in the order of `to_patches`."""
    steps = torch.arange(PICTURE_GRID * _MERGE, device=device).view(PICTURE_GRID, _MERGE)
    rows, columns = (
        steps.view(shape).expand(PICTURE_GRID, PICTURE_GRID, _MERGE, _MERGE).flatten()
        for shape in ((PICTURE_GRID, 1, _MERGE, 1), (1, PICTURE_GRID, 1, _MERGE))
    )
    return torch.stack([rows, columns], dim=-1)


def _attend(attention: nn.Module, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    query, key, value = attention.qkv(x).unflatten(-1, (3, attention.num_heads, -1)).unbind(2)
    query, key = apply_rotary_pos_emb_vision(query, key, *rotary)
    heads = (each.transpose(1, 2) for each in (query, key, value))
    seen = functional.scaled_dot_product_attention(*heads)
    mixed: torch.Tensor = attention.proj(seen.transpose(1, 2).flatten(2))
    return mixed
