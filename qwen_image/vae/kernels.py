"""The VAE's norm as one pass over memory, in Triton's language. Float32 inside."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ELEMENTS = 4096  # that one program holds


def channel_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x / ‖x‖ · weight over the channels of x (B, C, H, W), channels last in memory."""
    batch, channels, height, width = x.shape
    out = torch.empty_like(x, memory_format=torch.channels_last)
    pixels = batch * height * width
    per_program = max(1, ELEMENTS // triton.next_power_of_2(channels))
    _channel_norm[(triton.cdiv(pixels, per_program),)](
        x,
        weight,
        out,
        pixels,
        CHANNELS=channels,
        BLOCK=triton.next_power_of_2(channels),
        PIXELS=per_program,
        num_warps=4,
    )
    return out


@triton.jit(do_not_specialize=["pixels"])
def _channel_norm(
    x_ptr,
    weight_ptr,
    out_ptr,
    pixels,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIXELS: tl.constexpr,
):
    position = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    channels = tl.arange(0, BLOCK)
    inside = (position < pixels)[:, None] & (channels < CHANNELS)[None, :]
    offsets = position[:, None] * CHANNELS + channels[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + channels, mask=channels < CHANNELS, other=0.0).to(tl.float32)
    length = tl.maximum(tl.sqrt(tl.sum(x * x, 1)), 1e-12)
    result = x / length[:, None] * weight[None, :]
    tl.store(out_ptr + offsets, result.to(out_ptr.dtype.element_ty), mask=inside)
