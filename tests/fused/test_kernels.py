"""Each kernel against the same in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from qwen_image.dit.block import modulated, rotated
from qwen_image.dit.fused.kernels import norm_modulate, place_heads, quantised_rows
from qwen_image.vae.kernels import channel_norm

ROWS, TOKENS, DIM = 2, 5, 96  # no power of two
NEAR = 0.13  # several times FP8's rounding: the interpreter cuts digits off


def normal(*shape: int, device: str, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.mark.parametrize("with_branch", [False, True])
@pytest.mark.parametrize("references", [0, 2])
def test_norm_modulate(device, with_branch, references):
    x, shift_scale = normal(ROWS, TOKENS, DIM, device=device), normal(ROWS + 1, 2, DIM, device=device, seed=1)
    branch, gate = normal(ROWS, TOKENS + 3, DIM, device=device, seed=2), normal(ROWS + 1, DIM, device=device, seed=3)
    first_reference = TOKENS - references
    row_of = torch.arange(ROWS)[:, None].repeat(1, TOKENS)
    row_of[:, first_reference:] = ROWS  # (R, N): references take the last row's modulations
    wanted = x + gate[row_of] * branch[:, :TOKENS] if with_branch else x
    shift, scale = shift_scale[row_of].unbind(2)
    given = x.clone()
    found = norm_modulate(
        given,
        shift_scale,
        quantise=False,
        branch=branch if with_branch else None,
        gate=gate if with_branch else None,
        first_reference=first_reference,
    )
    torch.testing.assert_close(given, wanted)
    torch.testing.assert_close(found.values.view(ROWS, TOKENS, DIM), modulated(wanted, shift, scale))


def test_norm_modulate_to_fp8(device):
    x, shift_scale = normal(ROWS, TOKENS, DIM, device=device), normal(ROWS, 2, DIM, device=device, seed=1)
    exact = norm_modulate(x, shift_scale, quantise=False).values
    found = norm_modulate(x, shift_scale, quantise=True)
    assert found.values.dtype is torch.float8_e4m3fn
    torch.testing.assert_close(found.scale[:, 0] * 448, exact.abs().amax(-1))
    assert apart(found.values.float() * found.scale, exact) < NEAR


def test_place_heads(device):
    heads, head_dim, first, text = 3, 32, 4, 7
    qkv = normal(ROWS, TOKENS, 3, heads, head_dim, device=device)
    q_weight, k_weight = normal(2, head_dim, device=device, seed=1)
    angles = normal(TOKENS, head_dim // 2, device=device, seed=2)
    rotary = torch.stack([angles.cos(), angles.sin()])
    joint = torch.full((3, ROWS, first + TOKENS + text, heads, head_dim), 7.0, device=device)
    place_heads(qkv, q_weight, k_weight, rotary, joint, first)
    wanted = [
        rotated(functional.rms_norm(qkv[:, :, part], (head_dim,), weight, 1e-6), rotary)
        for part, weight in enumerate((q_weight, k_weight))
    ]
    placed = joint[:, :, first : first + TOKENS]
    torch.testing.assert_close(placed, torch.stack([*wanted, qkv[:, :, 2]]))
    assert (joint[:, :, :first] == 7).all()
    assert (joint[:, :, first + TOKENS :] == 7).all()


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # where a sigmoid is 0
@pytest.mark.parametrize("gelu", [False, True])
def test_quantised_rows(device, gelu):
    x = normal(7, 200, device=device) * torch.logspace(-3, 3, 7, device=device)[:, None]
    exact = functional.gelu(x, approximate="tanh") if gelu else x
    found = quantised_rows(x, gelu=gelu)
    for row in range(7):
        assert apart(found.values[row].float() * found.scale[row], exact[row]) < NEAR


def test_a_row_of_zeros_stays_one(device):
    found = quantised_rows(torch.zeros(2, 64, device=device))
    assert (found.values.float() * found.scale == 0).all()


@pytest.mark.parametrize("channels", [3, 96, 384])
def test_channel_norm(device, channels):
    x = normal(2, channels, 5, 3, device=device).to(memory_format=torch.channels_last)
    weight = normal(channels, 1, 1, device=device, seed=1)
    wanted = x / torch.linalg.vector_norm(x, dim=1, keepdim=True) * weight
    torch.testing.assert_close(channel_norm(x, weight), wanted)


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).norm() / right.norm())
