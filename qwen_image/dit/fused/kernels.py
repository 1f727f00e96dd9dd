"""What stands between two matrix products, each as one pass over memory, in Triton's language. Float32 inside.

One program a token. Tensors are contiguous; "rows" are a batch's, and `first_reference` is where tokens begin that are
modulated by the modulations' last row instead of their own (`zero_cond_t`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from qwen_image.dit.block import EPSILON
from qwen_image.dit.fp8 import FP8, LARGEST, SMALLEST_SCALE
from qwen_image.dit.fused.rows import Rows

NO_REFERENCES = 2**31 - 1
WARPS = 8


def norm_modulate(
    x: torch.Tensor,
    shift_scale: torch.Tensor,
    *,
    quantise: bool,
    branch: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    first_reference: int = NO_REFERENCES,
) -> Rows:
    """LayerNorm(x) · (1 + scale) + shift, (R · N, dim), for a linear layer to take.

    x (R, N, dim), shift_scale (R or R + 1, 2, dim). With `branch` and `gate` x is first, in place, x + gate · branch:
    gate (R or R + 1, dim), branch (R, N or more, dim), of which a row's first N tokens are read.
    """
    rows, tokens, dim = x.shape
    out, out_scale = _empty_rows(rows * tokens, dim, x, quantise)
    _norm_modulate[(rows * tokens,)](
        x,
        x if branch is None else branch,
        x if gate is None else gate,
        shift_scale,
        out,
        out if out_scale is None else out_scale,
        rows,
        tokens,
        0 if branch is None else branch.shape[1],
        0 if gate is None else gate.stride(0),
        shift_scale.stride(0),
        shift_scale.stride(1),
        first_reference,
        DIM=dim,
        BLOCK=triton.next_power_of_2(dim),
        EPS=EPSILON,
        HAS_BRANCH=branch is not None,
        QUANTISE=quantise,
        LIMIT=LARGEST,
        SMALLEST=SMALLEST_SCALE,
        num_warps=WARPS,
    )
    return Rows(out, out_scale)


def place_heads(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    rotary: torch.Tensor,
    joint: torch.Tensor,
    first: int,
) -> None:
    """Write q and k, normed head by head and turned by their positions, and v into `joint`, from token `first` on.

    qkv (R, N, 3, heads, head_dim), the weights (head_dim,), rotary (2, N, head_dim / 2) float32,
    joint (3, R, all tokens, heads, head_dim).
    """
    rows, tokens, _, heads, head_dim = qkv.shape
    _place_heads[(rows * tokens,)](
        qkv,
        q_weight,
        k_weight,
        rotary,
        joint,
        tokens,
        joint.shape[2],
        first,
        joint.stride(0),
        HEADS=heads,
        HEADS_BLOCK=triton.next_power_of_2(heads),
        HEAD_DIM=head_dim,
        EPS=EPSILON,
        num_warps=WARPS,
    )


def quantised_rows(x: torch.Tensor, *, gelu: bool = False) -> Rows:
    """x (M, K) in FP8 with a scale a row, (M, 1) float32; `gelu`: of the tanh form of GELU of x."""
    count, width = x.shape
    out, scale = _empty_rows(count, width, x, quantise=True)
    _quantise[(count,)](
        x,
        out,
        scale,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width),
        GELU=gelu,
        LIMIT=LARGEST,
        SMALLEST=SMALLEST_SCALE,
        num_warps=16 if width > 8192 else WARPS,
    )
    return Rows(out, scale)


def _empty_rows(count: int, width: int, like: torch.Tensor, quantise: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    out = like.new_empty((count, width), dtype=FP8 if quantise else like.dtype)
    return out, like.new_empty((count, 1), dtype=torch.float32) if quantise else None


@triton.jit(do_not_specialize=["rows", "tokens", "branch_tokens", "first_reference"])
def _norm_modulate(
    x_ptr,
    branch_ptr,
    gate_ptr,
    shift_scale_ptr,
    out_ptr,
    out_scale_ptr,
    rows,
    tokens,
    branch_tokens,
    gate_stride,
    norm_stride,
    scale_offset,
    first_reference,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    EPS: tl.constexpr,
    HAS_BRANCH: tl.constexpr,
    QUANTISE: tl.constexpr,
    LIMIT: tl.constexpr,
    SMALLEST: tl.constexpr,
):
    position = tl.program_id(0).to(tl.int64)
    row = position // tokens
    token = position - row * tokens
    modulation = tl.where(token >= first_reference, rows, row)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < DIM
    x = tl.load(x_ptr + position * DIM + offsets, mask=inside, other=0.0).to(tl.float32)
    if HAS_BRANCH:
        gate = tl.load(gate_ptr + modulation * gate_stride + offsets, mask=inside, other=0.0).to(tl.float32)
        branch = tl.load(branch_ptr + (row * branch_tokens + token) * DIM + offsets, mask=inside, other=0.0)
        rounded = (x + gate * branch.to(tl.float32)).to(x_ptr.dtype.element_ty)
        tl.store(x_ptr + position * DIM + offsets, rounded, mask=inside)
        x = rounded.to(tl.float32)
    mean = tl.sum(x, 0) / DIM
    centred = tl.where(inside, x - mean, 0.0)
    deviation = tl.rsqrt(tl.sum(centred * centred, 0) / DIM + EPS)
    shift_ptr = shift_scale_ptr + modulation * norm_stride
    shift = tl.load(shift_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(shift_ptr + scale_offset + offsets, mask=inside, other=0.0).to(tl.float32)
    result = tl.where(inside, centred * deviation * (1.0 + scale) + shift, 0.0)
    if QUANTISE:
        largest = tl.maximum(tl.max(tl.abs(result), 0) / LIMIT, SMALLEST)
        tl.store(out_scale_ptr + position, largest)
        result = result / largest
    tl.store(out_ptr + position * DIM + offsets, result.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["tokens", "joint_tokens", "first"])
def _place_heads(
    qkv_ptr,
    q_weight_ptr,
    k_weight_ptr,
    rotary_ptr,
    joint_ptr,
    tokens,
    joint_tokens,
    first,
    part_stride,
    HEADS: tl.constexpr,
    HEADS_BLOCK: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    EPS: tl.constexpr,
):
    position = tl.program_id(0).to(tl.int64)
    row = position // tokens
    token = position - row * tokens
    width: tl.constexpr = HEADS * HEAD_DIM
    half: tl.constexpr = HEAD_DIM // 2
    heads = tl.arange(0, HEADS_BLOCK)
    dims = tl.arange(0, HEAD_DIM)
    pairs = tl.arange(0, half)
    offsets = heads[:, None] * HEAD_DIM + dims[None, :]
    inside = (heads < HEADS)[:, None] & (dims >= 0)[None, :]
    cos = tl.load(rotary_ptr + token * half + pairs)[None, :]
    sin = tl.load(rotary_ptr + (tokens.to(tl.int64) + token) * half + pairs)[None, :]
    source = qkv_ptr + position * 3 * width + offsets
    target = joint_ptr + (row * joint_tokens + first + token) * width + offsets
    for part in tl.static_range(2):
        x = tl.load(source + part * width, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load((q_weight_ptr if part == 0 else k_weight_ptr) + dims).to(tl.float32)
        x = x * tl.rsqrt(tl.sum(x * x, 1) / HEAD_DIM + EPS)[:, None] * weight[None, :]
        even, odd = tl.split(tl.reshape(x, (HEADS_BLOCK, half, 2)))
        turned = tl.join(even * cos - odd * sin, even * sin + odd * cos)
        turned = tl.reshape(turned, (HEADS_BLOCK, HEAD_DIM)).to(joint_ptr.dtype.element_ty)
        tl.store(target + part * part_stride, turned, mask=inside)
    value = tl.load(source + 2 * width, mask=inside, other=0.0)
    tl.store(target + 2 * part_stride, value, mask=inside)


@triton.jit
def _quantise(
    x_ptr,
    out_ptr,
    scale_ptr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GELU: tl.constexpr,
    LIMIT: tl.constexpr,
    SMALLEST: tl.constexpr,
):
    position = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < WIDTH
    x = tl.load(x_ptr + position * WIDTH + offsets, mask=inside, other=0.0).to(tl.float32)
    if GELU:
        # x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), as x · sigmoid of twice that
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    scale = tl.maximum(tl.max(tl.abs(x), 0) / LIMIT, SMALLEST)
    tl.store(scale_ptr + position, scale)
    tl.store(out_ptr + position * WIDTH + offsets, (x / scale).to(out_ptr.dtype.element_ty), mask=inside)
