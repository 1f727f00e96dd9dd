"""The fused transformer without a GPU: Triton's language is interpreted, and attention is PyTorch's."""

from __future__ import annotations

import importlib
import os

import pytest

KERNELS = ("qwen_image.dit.fused.kernels", "qwen_image.vae_kernels")

with pytest.MonkeyPatch.context() as patch:
    patch.setitem(os.environ, "TRITON_INTERPRET", "1")
    for name in KERNELS:
        importlib.import_module(name)


@pytest.fixture(scope="session")
def device() -> str:
    return "cpu"
