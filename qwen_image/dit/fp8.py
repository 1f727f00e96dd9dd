"""Linear layers in FP8 (E4M3): a scale for every row of the weight, and for every token, found when it comes.

Nothing is calibrated, and how a row is rounded does not depend on its batch. Since the scales stand outside the
product, y = (q(x / s) · q(W / t)ᵀ) · s · t, compilers see a plain product of two FP8 tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from qwen_image.dit.block import Block

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # of E4M3
SMALLEST_SCALE = 1e-12  # a row of zeros

# Modulation loses most by rounding, and is little work where it is computed once a noise level: it stays in bfloat16.
# So do embedders, output norm and projection.
LAYERS = (
    *(f"attn.{name}" for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj")),
    *("attn.to_out.0", "attn.to_add_out"),
    *("img_mlp.net.0.proj", "img_mlp.net.2", "txt_mlp.net.0.proj", "txt_mlp.net.2"),
)


class Fp8Linear(nn.Module):
    """A linear layer (out, in) whose weight is FP8; what comes in and goes out is bfloat16 (or float32)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features).to(FP8), requires_grad=False)
        self.weight_scale = nn.Parameter(torch.empty(out_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = row_scale(x)
        product = (x / scale).to(FP8).to(x.dtype) @ self.weight.to(x.dtype).T
        return product * scale * self.weight_scale + self.bias


def row_scale(x: torch.Tensor) -> torch.Tensor:
    """(..., n) -> (..., 1): what a row is divided by to fill E4M3's range."""
    return (x.abs().amax(-1, keepdim=True) / LARGEST).clamp(min=SMALLEST_SCALE)


def with_fp8_layers(block: Block) -> Block:
    """The same block, its large linear layers replaced by FP8 ones without values."""
    for name in LAYERS:
        parent, _, attribute = name.rpartition(".")
        linear = block.get_submodule(name)
        assert isinstance(linear, nn.Linear)
        setattr(block.get_submodule(parent), attribute, Fp8Linear(linear.in_features, linear.out_features))
    return block


def quantised(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A block's tensors, those of its FP8 layers as `weight` and `weight_scale`."""
    result = dict(tensors)
    for name in LAYERS:
        weight = tensors[f"{name}.weight"]
        scale = row_scale(weight.float()).to(weight.dtype)  # rounded before it divides, since it multiplies rounded
        result[f"{name}.weight"] = (weight.float() / scale.float()).to(FP8)
        result[f"{name}.weight_scale"] = scale[:, 0]
    return result
