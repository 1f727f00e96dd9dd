"""A linear layer as one call: a product with its bias, and with GELU where a GPU's library has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn import functional

from qwen_image.dit.fp8 import FP8
from qwen_image.dit.fused.kernels import quantised_rows
from qwen_image.dit.fused.rows import Rows


class Linear:
    """Of one or several layers of the checkpoint that take the same rows: their outputs side by side."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], names: Sequence[str]) -> None:
        """`tensors` are a block's, as `fp8.quantised` leaves them where they are FP8."""
        weight = torch.cat([tensors[f"{name}.weight"] for name in names])
        self.bias = torch.cat([tensors[f"{name}.bias"] for name in names])
        self.takes_fp8 = weight.dtype is FP8
        self._weight = weight.T  # (in, out), each output's weights together
        self._scale: torch.Tensor | None = None
        if self.takes_fp8:
            self._scale = torch.cat([tensors[f"{name}.weight_scale"] for name in names]).float()[None]  # (1, out)

    def __call__(self, rows: Rows) -> torch.Tensor:
        """(M, in) -> (M, out)."""
        if rows.scale is None:
            return torch.addmm(self.bias, rows.values, self._weight)
        assert self._scale is not None
        return _scaled_product(rows, self._weight, self._scale, self.bias)

    def gelu(self, rows: Rows, *, quantise: bool) -> Rows:
        """The tanh form of GELU of the outputs, (M, out), for the next layer to take."""
        if quantise:
            return quantised_rows(self(rows), gelu=True)
        if rows.scale is None and rows.values.is_cuda:
            return Rows(torch._addmm_activation(self.bias, rows.values, self._weight, use_gelu=True))
        return Rows(functional.gelu(self(rows), approximate="tanh"))


def _scaled_product(rows: Rows, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    assert rows.scale is not None
    if rows.values.is_cuda:
        return torch._scaled_mm(rows.values, weight, rows.scale, scale, bias, out_dtype=bias.dtype, use_fast_accum=True)
    product = rows.values.float() @ weight.float()  # for checks where there is no GPU
    return (product * rows.scale * scale + bias).to(bias.dtype)
