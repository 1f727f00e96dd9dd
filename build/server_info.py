"""What a server tells clients of itself: its task, its defaults, its limits. The ensembles' configurations carry it."""

from __future__ import annotations

import json
from dataclasses import asdict

from build.settings import Settings
from qwen_image.checkpoint import Checkpoint
from qwen_image.images import fitted_size
from qwen_image_contract import ENSEMBLES, Limits, inputs_of


def server_info(checkpoint: Checkpoint, settings: Settings, limits: Limits) -> str:
    """JSON: `task`, `family`, `defaults` by input, `limits` by name; numbers all of them, sides in pixels."""
    edit = checkpoint.edit
    task = checkpoint.family.task
    height, width = checkpoint.default_size
    if edit is not None:  # the result is like its input image: this is for a square one
        width, height = fitted_size(edit.reference_area, 1, 1, edit.side_multiple)
    stream = next(each for each in ENSEMBLES if each.task == task and each.is_stream)
    defaults = {each.name: each.default for each in inputs_of(stream) if each.default is not None}
    return json.dumps(
        {
            "task": task,
            "family": checkpoint.family.pipeline_class,
            "defaults": {"height": height, "width": width, **defaults},
            "limits": {
                **asdict(limits),
                "max_rows": settings.max_rows,
                "max_input_images": 1 if edit is None else edit.max_images,
                "size_multiple": checkpoint.family.size_multiple,
            },
        }
    )
