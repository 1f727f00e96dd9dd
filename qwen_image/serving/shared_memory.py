"""What requests need of /dev/shm, through which tensors travel between Triton and the models' processes.

Each process has a region there that grows and never shrinks, so the need is the sum of the most that each ever holds.
"""

from __future__ import annotations

import os
from pathlib import Path

from qwen_image.checkpoint import Checkpoint
from qwen_image.errors import ServerFailed
from qwen_image_contract import Limits

FOLDER = Path("/dev/shm")
MIB = 1024**2
FLOAT_BYTES = 4
BRANCHES = 2  # a prompt's text states and a negative prompt's
STATES_HELD = 6  # by the text encoder, by the transformer, and twice by each of the two samplers, which pass them on
PIXEL_BYTES = 54  # in all processes, of a pixel painted over: its file, what it was, latents, the result
PROCESSES_MIB = 16  # what the regions, a MiB each, hold at first
MORE = (
    "start the container with more (--shm-size=4g, in compose.yaml QWEN_IMAGE_SHM_SIZE) or, as root, "
    "mount -o remount,size=4g /dev/shm"
)


def needed_bytes(checkpoint: Checkpoint, rows: int, pixels: int) -> int:
    """For one request at a time: so many images of so many pixels, with the longest prompts."""
    states = BRANCHES * checkpoint.max_text_tokens * checkpoint.prompt_embeds_dim * FLOAT_BYTES
    edit = checkpoint.edit
    seen = edit.max_images * (edit.condition_area + edit.reference_area) if edit else 0
    return PROCESSES_MIB * MIB + rows * (STATES_HELD * states + PIXEL_BYTES * (pixels + seen))


def check_shared_memory(
    checkpoint: Checkpoint, limits: Limits, max_rows: int, *, free_bytes: int | None = None
) -> str | None:
    """A warning if the largest requests that the limits allow do not fit; None if they do.

    ServerFailed if not even one image of the checkpoint's default size does.
    """
    if free_bytes is None:
        found = os.statvfs(FOLDER)
        free_bytes = found.f_bavail * found.f_frsize
    height, width = checkpoint.default_size
    one = needed_bytes(checkpoint, 1, height * width)
    if free_bytes < one:
        raise ServerFailed(
            f"{FOLDER} has {free_bytes} bytes free; one image of {width}x{height} may need {one}: {MORE}"
        )
    most = needed_bytes(checkpoint, max_rows, min(limits.max_pixels, limits.max_side**2))
    if free_bytes >= most:
        return None
    return (
        f"{FOLDER} has {free_bytes} bytes free; a request of the largest kind that the limits allow may need {most}, "
        f"and fails where there is less: {MORE}, or lower --max-rows={max_rows} or --max-pixels={limits.max_pixels}"
    )
