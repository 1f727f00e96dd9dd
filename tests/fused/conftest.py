"""The fused transformer, on a GPU where there is one. Elsewhere Triton's language is interpreted."""

from __future__ import annotations

import importlib
import os

import pytest
import torch

KERNELS = ("qwen_image.dit.fused.kernels", "qwen_image.vae.kernels")

if not torch.cuda.is_available():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TRITON_INTERPRET", "1")
        for name in KERNELS:
            importlib.import_module(name)


@pytest.fixture(scope="session")
def device(slow) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
