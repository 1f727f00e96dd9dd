"""Single denoising steps of different requests share batches; nobody's batch changes anybody's image."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tritonclient.utils import InferenceServerException

from tests.pictures import levels_apart
from tests.serving.raw import ask, cancel, statistics

# Prompts of several lengths, step counts and guidance: what a busy server holds at one time.
MIXED = [
    {"prompt": "a star", "num_inference_steps": 6, "seed": 1},
    {"prompt": "two small green triangles left of one large purple star", "num_inference_steps": 9, "seed": 2},
    {"prompt": "a cat", "negative_prompt": "blurry", "num_inference_steps": 12, "seed": 3},
    {"prompt": "a red circle above a blue square on a yellow background " * 6, "num_inference_steps": 5, "seed": 4}
    | {"negative_prompt": "", "true_cfg_scale": 6.0},
    {"prompt": "a sign that says HELLO", "num_inference_steps": 1, "seed": 5},
    {"prompt": "a ring", "num_inference_steps": 20, "seed": 6, "negative_prompt": "watermark, low quality, text " * 5},
    {"prompt": "七颗星星", "num_inference_steps": 7, "seed": 7},
    {"prompt": "a photo", "sigmas": [0.9, 0.5, 0.2], "seed": 8},
]


def test_steps_of_mixed_requests_share_batches(server, at_once):
    before = statistics(server, "dit")
    at_once(lambda row: ask(server, outputs=("latents",), height=64, width=64, **row), MIXED * 2)
    after = statistics(server, "dit")
    rows = after.inference_count - before.inference_count
    batches = after.execution_count - before.execution_count
    assert rows == 2 * sum(len(row["sigmas"]) if "sigmas" in row else row["num_inference_steps"] for row in MIXED)
    assert rows / batches > 1.5
    earlier = {batch.batch_size: batch.compute_infer.count for batch in before.batch_stats}
    grown = [
        each.batch_size for each in after.batch_stats if each.compute_infer.count > earlier.get(each.batch_size, 0)
    ]
    assert max(grown) >= 4


def test_a_rows_image_equals_its_solo_run_whatever_it_is_batched_with(server, at_once):
    solo = [ask(server, height=64, width=64, outputs=("latents", "image"), **row) for row in MIXED]
    sizes = [{"height": 64, "width": 64}, {"height": 96, "width": 64}]
    busy = at_once(
        lambda item: ask(server, outputs=("latents", "image"), **item), [row | size for row in MIXED for size in sizes]
    )
    for alone, together in zip(solo, busy[::2], strict=True):
        assert np.abs(alone["latents"] - together["latents"]).max() < 1e-4
        assert levels_apart(alone["image"], together["image"]) <= 1


def test_different_sizes_are_grouped_and_not_refused(server, at_once):
    sizes = [(64, 64), (64, 96), (96, 64), (128, 128), (80, 112)]
    images = at_once(
        lambda size: ask(server, "a star", height=size[0], width=size[1], num_inference_steps=6)["image"], sizes * 2
    )
    assert [image.shape[1:3] for image in images] == sizes * 2


def test_a_short_request_sent_into_a_long_one_finishes_long_before_it(server):
    size, request_id = {"height": 512, "width": 512, "outputs": ("latents",)}, uuid.uuid4().hex
    before = statistics(server, "dit").inference_count
    with ThreadPoolExecutor() as pool:
        long = pool.submit(ask, server, "a long one", num_inference_steps=200, request_id=request_id, **size)
        while statistics(server, "dit").inference_count < before + 3:
            assert not long.done()
            time.sleep(0.01)
        ask(server, "a short one", num_inference_steps=4, **size)
        assert not long.done()
        assert cancel(server, request_id) == 1
        assert isinstance(long.exception(60), InferenceServerException)
