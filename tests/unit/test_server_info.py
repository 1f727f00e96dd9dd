"""What a server tells of itself agrees with what it was rendered from."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from build.server_info import server_info
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.request.params import GenerationParams
from qwen_image_contract import Limits

SQUARE = 128  # pixels a side of an edit of a square image, by the tiny checkpoints' area
NUMBERS = ("num_inference_steps", "true_cfg_scale", "cfg_start", "cfg_end")


@pytest.mark.parametrize(
    ("folder", "task", "images"),
    [("tiny_checkpoint", "generate", 1), ("tiny_edit_checkpoint", "edit", 1), ("tiny_edit_plus_checkpoint", "edit", 3)],
)
def test_it_tells_the_task_the_defaults_and_the_limits(folder, task, images, request):
    checkpoint = open_checkpoint(request.getfixturevalue(folder))
    limits = Limits(max_side=512)
    told = json.loads(server_info(checkpoint, Settings(max_rows=3), limits))
    assert (told["task"], told["family"]) == (task, checkpoint.family.pipeline_class)
    params = GenerationParams("a star")
    height, width = checkpoint.default_size if task == "generate" else (SQUARE, SQUARE)
    defaults = {"height": height, "width": width, "preview_every": 1} | (
        {"strength": 0.6} if task == "generate" else {}
    )
    defaults |= {
        name: getattr(params, name) for name in ("num_inference_steps", "true_cfg_scale", "cfg_start", "cfg_end")
    }
    assert told["defaults"] == defaults
    assert told["limits"] == asdict(limits) | {"max_rows": 3, "max_input_images": images, "size_multiple": 16}
