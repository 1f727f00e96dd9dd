"""A process that can't use its GPU any more ends, so that the watchdog has the server started again.

Some CUDA errors (an illegal address, a failed assertion, memory that the card can't correct) leave every later call of
the process failing, whatever it asks for. Memory that ran out does not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

import torch

from qwen_image.errors import QwenImageError

EXIT_CODE = 70  # EX_SOFTWARE
_log = logging.getLogger("qwen_image.serving")


def wait_for_gpu() -> None:
    """Until it has done what it was given; raises what every call raises once the GPU is lost."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def end_if_gpu_is_lost(errors: Iterable[BaseException], ask: Callable[[], None] = wait_for_gpu) -> None:
    """After computations failed: ends the process if the GPU fails at nothing, too. Our own errors are no reason."""
    if all(isinstance(error, QwenImageError) for error in errors):
        return
    try:
        ask()
    except Exception as lost:
        _log.critical("the GPU is lost to this process, which ends: %s: %s", type(lost).__name__, lost)
        os._exit(EXIT_CODE)  # nothing is tidied up: that would call CUDA
