"""The transformer made ready for training: rotary positions in real numbers, blocks compiled; weights unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from diffusers.models.attention_processor import Attention
from torch import nn
from torch.nn import functional

Rotary = tuple[torch.Tensor, torch.Tensor]  # image and text, each (tokens, head_dim / 2, 2)


class RealRotary(nn.Module):
    """The transformer's positions as (cos, sin) pairs: compilers take no complex numbers."""

    def __init__(self, complex_rotary: nn.Module) -> None:
        super().__init__()
        self._complex = complex_rotary

    def forward(self, *args: object, **kwargs: object) -> Rotary:
        image, text = self._complex(*args, **kwargs)
        return torch.view_as_real(image), torch.view_as_real(text)


def rotate(x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
    """(B, S, heads, D) turned by (S, D / 2, 2)."""
    cos, sin = rotary[:, None, :, 0], rotary[:, None, :, 1]
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


class RealAttention:
    """The joint attention of text and image tokens."""

    def __call__(
        self,
        attn: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_hidden_states_mask: torch.Tensor | None = None,
        attention_mask: None = None,
        image_rotary_emb: Rotary | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        image_rotary, text_rotary = image_rotary_emb
        head_dim = attn.inner_dim // attn.heads
        texts = (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)
        images = (attn.to_q, attn.to_k, attn.to_v)
        tq, tk, tv = (layer(encoder_hidden_states).unflatten(-1, (-1, head_dim)) for layer in texts)
        iq, ik, iv = (layer(hidden_states).unflatten(-1, (-1, head_dim)) for layer in images)
        tq, tk = rotate(attn.norm_added_q(tq), text_rotary), rotate(attn.norm_added_k(tk), text_rotary)
        iq, ik = rotate(attn.norm_q(iq), image_rotary), rotate(attn.norm_k(ik), image_rotary)
        query, key, value = (torch.cat(pair, dim=1).transpose(1, 2) for pair in ((tq, iq), (tk, ik), (tv, iv)))
        joint = functional.scaled_dot_product_attention(
            query, key, value.to(query.dtype), attn_mask=_joint_mask(encoder_hidden_states_mask, iq.shape[1])
        )
        text, image = joint.transpose(1, 2).flatten(2).split([tq.shape[1], iq.shape[1]], dim=1)
        return attn.to_out[0](image), attn.to_add_out(text)


def _joint_mask(text_mask: torch.Tensor | None, image_tokens: int) -> torch.Tensor | None:
    if text_mask is None:
        return None
    ones = text_mask.new_ones(text_mask.shape[0], image_tokens)
    return torch.cat([text_mask, ones], dim=1)[:, None, None, :]


def prepare_for_training(model: nn.Module, device: torch.device) -> None:
    """Swap positions and attention in place; on a GPU run the blocks of both models compiled, in bf16."""
    transformer, attention = model.transformer, RealAttention()
    transformer.pos_embed = RealRotary(transformer.pos_embed)
    for block in transformer.transformer_blocks:
        block.attn.processor = attention
    if device.type == "cuda":
        torch._dynamo.config.recompile_limit = 256
        for layers in (transformer.transformer_blocks, model.text_encoder.model.language_model.layers):
            # One function for all layers: they share its graphs, one for each picture size.
            run = torch.compile(_run_in_bf16, dynamic=False)
            for layer in layers:
                layer.forward = partial(run, type(layer).forward, layer)


def _run_in_bf16(forward: Callable[..., object], layer: nn.Module, *args: object, **kwargs: object) -> object:
    with torch.autocast("cuda", torch.bfloat16):
        return forward(layer, *args, **kwargs)
