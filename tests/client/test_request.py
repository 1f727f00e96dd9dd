"""One call's options become one request a row, and what the wire can't carry is refused."""

import numpy as np
import pytest

from qwen_image_client import GenerationRequest, InvalidRequest
from qwen_image_client.request import expand_requests


def test_options_left_out_stay_left_out():
    (row,) = expand_requests("a red circle")
    assert row == GenerationRequest(prompt="a red circle")


def test_images_of_a_prompt_without_a_seed_leave_every_seed_to_the_server():
    assert [row.seed for row in expand_requests("a", num_images=3)] == [None] * 3


def test_images_of_a_prompt_take_successive_seeds():
    assert [row.seed for row in expand_requests("a", num_images=3, seed=7)] == [7, 8, 9]


def test_every_prompt_of_a_list_starts_at_the_seed_so_that_it_equals_its_solo_call():
    together = expand_requests(["a", "b"], num_images=2, seed=7, width=64)
    apart = expand_requests("a", num_images=2, seed=7, width=64) + expand_requests("b", num_images=2, seed=7, width=64)
    assert together == apart


def test_a_list_of_seeds_is_one_an_image():
    rows = expand_requests(["a", "b"], num_images=2, seed=[5, 1, 4, 2])
    assert [(row.prompt, row.seed) for row in rows] == [("a", 5), ("a", 1), ("b", 4), ("b", 2)]


def test_numpy_numbers_are_numbers():
    row = GenerationRequest(prompt="a", height=np.int64(64), true_cfg_scale=np.float32(2), sigmas=np.array([1.0, 0.5]))
    assert (row.height, row.true_cfg_scale, row.sigmas) == (64, 2.0, (1.0, 0.5))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": b"bytes"}, "prompt must be text"),
        ({"prompt": "\ud800"}, "UTF-8"),
        ({"negative_prompt": 3}, "negative_prompt must be text"),
        ({"height": 64.0}, "height=64.0 must be an integer"),
        ({"width": True}, "width=True must be an integer"),
        ({"num_inference_steps": "4"}, "must be an integer"),
        ({"num_inference_steps": 2**31}, "INT32"),
        ({"seed": 2**63}, "INT64"),
        ({"true_cfg_scale": "4"}, "must be a number"),
        ({"true_cfg_scale": 1e39}, "FP32"),
        ({"sigmas": 0.5}, "sequence of numbers"),
        ({"sigmas": "1.0"}, "sequence of numbers"),
        ({"sigmas": []}, "at least one"),
        ({"sigmas": [1.0, None]}, r"sigmas\[1\]"),
    ],
)
def test_a_value_the_wire_cannot_carry_is_refused_by_name(options, words):
    with pytest.raises(InvalidRequest, match=words):
        GenerationRequest(**{"prompt": "a", **options})


@pytest.mark.parametrize("options", [{"height": 17}, {"num_inference_steps": 0}, {"true_cfg_scale": float("nan")}])
def test_ranges_are_left_to_the_server(options):
    assert GenerationRequest(prompt="a", **options)


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        ([], {}, "0 prompts"),
        ("a", {"num_images": 0}, "num_images=0"),
        ("a", {"num_images": 2, "seed": [1]}, "1 seeds for 2 images"),
        ("a", {"num_images": 2, "seed": 2**63 - 1}, "INT64"),
        ("a", {"seed": 1.5}, "seed=1.5 must be an integer"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(prompt, options, words):
    with pytest.raises(InvalidRequest, match=words):
        expand_requests(prompt, **options)


def test_an_unknown_option_is_an_error():
    with pytest.raises(TypeError, match="steps"):
        expand_requests("a", steps=4)
