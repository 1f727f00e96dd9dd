"""The server's images against diffusers' own pipeline, on the same checkpoint and noise, in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import QwenImagePipeline

from tests.serving.raw import ask

TOLERANCE = 1e-4  # on [0, 1]
LONG_PROMPT = "two small green triangles left of one large purple star, " * 12
CASES = {
    "square": {"prompt": "a red circle", "num_inference_steps": 4},
    "wide": {"prompt": "a red circle", "height": 64, "width": 160, "num_inference_steps": 3},
    "tall, guided": {
        "prompt": "a cat",
        "negative_prompt": "blurry",
        "height": 160,
        "width": 80,
        "num_inference_steps": 5,
    },
    "empty negative prompt": {"prompt": "a cat", "negative_prompt": "", "num_inference_steps": 3},
    "blank negative prompt": {"prompt": "a cat", "negative_prompt": " ", "num_inference_steps": 3},
    "scale": {"prompt": "a cat", "negative_prompt": "x", "true_cfg_scale": 9.5, "num_inference_steps": 3},
    "scale of one": {"prompt": "a cat", "negative_prompt": "x", "true_cfg_scale": 1.0, "num_inference_steps": 3},
    "many steps": {
        "prompt": "七颗星星 🌟",
        "negative_prompt": "",
        "height": 64,
        "width": 64,
        "num_inference_steps": 40,
    },
    "two steps": {"prompt": "a cat", "num_inference_steps": 2},
    "given sigmas": {"prompt": "a cat", "negative_prompt": "", "sigmas": [1.0, 0.7, 0.45, 0.1]},
    "sigmas that start below one": {"prompt": "a cat", "sigmas": [0.8, 0.5, 0.2]},
    "long prompt": {"prompt": LONG_PROMPT, "negative_prompt": "blurry", "num_inference_steps": 3},
    "large": {"prompt": "a cat", "height": 512, "width": 384, "num_inference_steps": 2},
}


@pytest.fixture(scope="module")
def pipeline(tiny_checkpoint):
    pipeline = QwenImagePipeline.from_pretrained(tiny_checkpoint)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def reference(pipeline, prompt, *, seeds, **values):
    """diffusers' images as floats on [0, 1]."""
    values = {"height": 128, "width": 128, "max_sequence_length": 1024} | values
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return pipeline(prompt, generator=generators, output_type="np", **values).images


def assert_same(image, expected):
    """A byte within TOLERANCE of the reference's float: half a byte's step is rounding."""
    assert np.abs(image - expected * 255).max() <= 0.5 + 255 * TOLERANCE


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_image_equals_diffusers(server, pipeline, case):
    case = dict(case)
    prompt = case.pop("prompt")
    assert_same(ask(server, prompt, seed=11, **case)["image"], reference(pipeline, prompt, seeds=[11], **case))


@pytest.mark.parametrize("negative", [None, ["", "blurry, low quality, watermark"]], ids=["unguided", "guided"])
def test_a_batch_of_two_unequal_prompts_equals_diffusers(server, pipeline, negative):
    prompts = ["a star", LONG_PROMPT]
    case = {"num_inference_steps": 4, "height": 96, "width": 128}
    given = {} if negative is None else {"negative_prompt": negative}
    image = ask(server, prompts, seed=[5, 6], **given, **case)["image"]
    assert_same(image, reference(pipeline, prompts, seeds=[5, 6], **given, **case))


def test_other_prompts_and_seeds_and_scales_give_other_images(server):
    """What makes the comparisons above mean something: the tiny checkpoint is not blind to its inputs."""
    base = {"prompt": "a red circle", "seed": 11, "negative_prompt": "", "num_inference_steps": 4}
    images = [
        ask(server, outputs=("latents",), **(base | change))["latents"]
        for change in ({}, {"prompt": "a blue square"}, {"seed": 12}, {"true_cfg_scale": 8.0}, {"negative_prompt": "x"})
    ]
    assert all(np.abs(images[0] - other).max() > 1e-2 for other in images[1:])


@pytest.mark.parametrize(("start", "end"), [(0.0, 0.5), (0.4, 1.0), (0.25, 0.75), (0.0, 0.0)])
def test_guidance_in_a_part_of_the_steps_equals_diffusers(server, pipeline, start, end):
    """diffusers' pipeline guides in every step: where the two branches are equal, guidance has no effect."""
    steps, scale, calls, conditional = 8, 6.0, [], []

    def unguided_outside(_module, _inputs, output):
        step, is_negative = divmod(len(calls), 2)
        calls.append(step)
        if not is_negative:
            conditional[:] = [output]
            return output
        return output if int(start * steps) <= step < int(end * steps) else conditional[0]

    case = {"negative_prompt": "blurry", "true_cfg_scale": scale, "num_inference_steps": steps}
    hook = pipeline.transformer.register_forward_hook(unguided_outside)
    try:
        expected = reference(pipeline, "a cat", seeds=[3], **case)
    finally:
        hook.remove()
    outputs = ("image", "used_true_cfg_scale")
    answer = ask(server, "a cat", seed=3, cfg_start=start, cfg_end=end, outputs=outputs, **case)
    assert len(calls) == 2 * steps
    assert_same(answer["image"], expected)
    assert answer["used_true_cfg_scale"][0, 0] == (scale if start < end else 1)
