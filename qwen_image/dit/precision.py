"""In which numbers the transformer computes."""

from __future__ import annotations

from enum import StrEnum

import torch


class Precision(StrEnum):
    """`fp8`: the large linear layers of the blocks in FP8 (see `fp8.py`), the rest in bfloat16."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def dtype(self) -> torch.dtype:
        """Of activations, and of weights that are not FP8."""
        return torch.float32 if self is Precision.FP32 else torch.bfloat16
