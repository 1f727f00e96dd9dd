"""One double-stream block of the transformer, written once: PyTorch runs it, and it is what is exported to ONNX.

Mathematics and parameter names are those of diffusers' QwenImageTransformerBlock. Rotary positions are real numbers,
and attention and RMS norm are single operators, since those are what compilers have kernels for.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch import nn
from torch.nn import functional

EPSILON = 1e-6


class Block(nn.Module):
    """Image and text tokens, each normed, modulated by the noise level and joined in one attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.img_mod = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.txt_mod = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.attn = JointAttention(dim, heads)
        self.img_mlp = FeedForward(dim)
        self.txt_mlp = FeedForward(dim)

    def forward(
        self,
        image: torch.Tensor,
        text: torch.Tensor,
        text_mask: torch.Tensor | None,
        temb: torch.Tensor,
        image_rotary: torch.Tensor,
        text_rotary: torch.Tensor,
        reference_temb: torch.Tensor | None = None,
        is_reference: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Image (B, L, dim) and text (B, T, dim) after the block.

        text_mask (B, T) bool is False where text is padding (None: nowhere), temb (B, dim) the embedded noise level,
        the rotary tables (2, L or T, head_dim / 2) float32: cosines and sines of each token's angles. Where
        is_reference (L,) bool, image tokens are modulated by reference_temb (B, dim) instead: `zero_cond_t`.
        """
        mask = None if text_mask is None else joint_mask(text_mask, image.shape[1])
        # (B, 6 * dim) -> six of (B, 1, dim): shift, scale and gate of attention, then of the feed-forward
        image_mod = self.img_mod(temb).unflatten(-1, (6, 1, -1)).unbind(1)
        text_mod = self.txt_mod(temb).unflatten(-1, (6, 1, -1)).unbind(1)
        if reference_temb is not None and is_reference is not None:
            reference_mod = self.img_mod(reference_temb).unflatten(-1, (6, 1, -1)).unbind(1)
            of_reference = is_reference[None, :, None]  # six of (B, L, dim) from here
            image_mod = tuple(map(partial(torch.where, of_reference), reference_mod, image_mod))
        image_attended, text_attended = self.attn(
            modulated(image, *image_mod[:2]), modulated(text, *text_mod[:2]), mask, image_rotary, text_rotary
        )
        image = image + image_mod[2] * image_attended
        text = text + text_mod[2] * text_attended
        image = image + image_mod[5] * self.img_mlp(modulated(image, *image_mod[3:5]))
        text = text + text_mod[5] * self.txt_mlp(modulated(text, *text_mod[3:5]))
        return image, text


class JointAttention(nn.Module):
    """One attention over the tokens of both streams, text first, with projections of their own."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.add_q_proj, self.add_k_proj, self.add_v_proj = (nn.Linear(dim, dim) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(dim, dim)])
        self.to_add_out = nn.Linear(dim, dim)
        self.norm_q, self.norm_k = (RmsNorm(dim // heads) for _ in range(2))
        self.norm_added_q, self.norm_added_k = (RmsNorm(dim // heads) for _ in range(2))

    def forward(
        self,
        image: torch.Tensor,
        text: torch.Tensor,
        mask: torch.Tensor | None,
        image_rotary: torch.Tensor,
        text_rotary: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        text_query = rotated(self.norm_added_q(self._heads(self.add_q_proj(text))), text_rotary)
        text_key = rotated(self.norm_added_k(self._heads(self.add_k_proj(text))), text_rotary)
        image_query = rotated(self.norm_q(self._heads(self.to_q(image))), image_rotary)
        image_key = rotated(self.norm_k(self._heads(self.to_k(image))), image_rotary)
        attended = functional.scaled_dot_product_attention(
            torch.cat([text_query, image_query], dim=1).transpose(1, 2),  # (B, heads, T + L, head_dim)
            torch.cat([text_key, image_key], dim=1).transpose(1, 2),
            torch.cat([self._heads(self.add_v_proj(text)), self._heads(self.to_v(image))], dim=1).transpose(1, 2),
            attn_mask=mask,
        )
        attended = attended.transpose(1, 2).flatten(2)  # (B, T + L, dim)
        text_tokens = text.shape[1]
        return self.to_out[0](attended[:, text_tokens:]), self.to_add_out(attended[:, :text_tokens])

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        split: torch.Tensor = x.unflatten(-1, (self.heads, -1))  # (B, N, dim) -> (B, N, heads, head_dim)
        return split


class RmsNorm(nn.Module):
    """Root mean square norm over the last dimension, with a learned scale."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, EPSILON)


class FeedForward(nn.Module):
    """Four times as wide within, with the tanh form of GELU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        up = nn.Module()
        up.proj = nn.Linear(dim, 4 * dim)
        self.net = nn.ModuleList([up, nn.Identity(), nn.Linear(4 * dim, dim)])  # the checkpoint's names

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = cast(nn.Module, self.net[0].proj)
        return cast(torch.Tensor, self.net[2](functional.gelu(up(x), approximate="tanh")))


def modulated(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Layer norm without parameters of its own, then scaled and shifted."""
    return functional.layer_norm(x, x.shape[-1:], eps=EPSILON) * (1 + scale) + shift


def rotated(x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
    """Neighbouring pairs of x (B, N, heads, head_dim) turned by rotary's angles (2, N, head_dim / 2), in float32."""
    cos, sin = rotary[:, :, None, :].unbind(0)
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


def joint_mask(text_mask: torch.Tensor, image_tokens: int) -> torch.Tensor:
    """(B, T) -> (B, 1, T + L, T + L) bool: nobody attends to padded text, everybody to everything else.

    ONNX's Attention wants a row for every query; in PyTorch they are one row in memory.
    """
    image_mask = text_mask.new_ones((text_mask.shape[0], image_tokens))
    mask = torch.cat([text_mask, image_mask], dim=1)
    return mask[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
