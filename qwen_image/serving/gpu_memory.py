"""What PyTorch holds of a GPU, in words for a log."""

from __future__ import annotations

import torch


def gpu_memory() -> str:
    """Of this process, its CUDA context aside; nothing where it uses no GPU."""
    held = torch.cuda.memory_reserved()
    if not held:
        return ""
    used, most = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    return f"GPU memory: {used / 2**30:.2f} GiB used, {most / 2**30:.2f} at most, {held / 2**30:.2f} held"
