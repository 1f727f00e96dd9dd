"""Rows become the tensors of the public contract, batch dimension first."""

import numpy as np
import pytest

from qwen_image_client import GenerationRequest, InvalidRequest
from qwen_image_client._request import expand_requests
from qwen_image_client._tensors import make_input_tensors


def test_a_prompt_alone_is_one_tensor():
    tensors = make_input_tensors(expand_requests("a red circle"))
    assert tensors.keys() == {"prompt"}
    assert tensors["prompt"].tolist() == [[b"a red circle"]]


def test_every_option_has_its_type_and_shape():
    rows = expand_requests(
        "红",
        negative_prompt="",
        height=32,
        width=16,
        num_inference_steps=2,
        true_cfg_scale=4.1,
        seed=-(2**63),
        sigmas=[1.0, 0.5],
        image=b"start",
        strength=0.5,
        mask_image=b"mask",
        num_images=2,
    )
    described = {name: (array.dtype, array.shape) for name, array in make_input_tensors(rows).items()}
    assert described == {
        "prompt": (np.object_, (2, 1)),
        "negative_prompt": (np.object_, (2, 1)),
        "height": (np.int32, (2, 1)),
        "width": (np.int32, (2, 1)),
        "num_inference_steps": (np.int32, (2, 1)),
        "true_cfg_scale": (np.float32, (2, 1)),
        "seed": (np.int64, (2, 1)),
        "sigmas": (np.float32, (2, 2)),
        "input_image": (np.object_, (2, 1)),
        "strength": (np.float32, (2, 1)),
        "mask_image": (np.object_, (2, 1)),
    }


def test_the_extremes_of_a_seed_arrive_whole():
    tensors = make_input_tensors(expand_requests("a", num_images=2, seed=[-(2**63), 2**63 - 1]))
    assert tensors["seed"].tolist() == [[-(2**63)], [2**63 - 1]]


def test_rows_may_differ_in_steps_and_scale():
    rows = [GenerationRequest(prompt="a", num_inference_steps=n, true_cfg_scale=n / 2) for n in (4, 8)]
    tensors = make_input_tensors(rows)
    assert tensors["num_inference_steps"].tolist() == [[4], [8]]
    assert tensors["true_cfg_scale"].tolist() == [[2.0], [4.0]]


def test_rows_with_and_without_negative_prompt_share_a_request():
    with_one = GenerationRequest(prompt="a", negative_prompt="blurry", true_cfg_scale=3.0)
    without = GenerationRequest(prompt="b", true_cfg_scale=5.0)
    tensors = make_input_tensors([with_one, without])
    assert tensors["negative_prompt"].tolist() == [[b"blurry"], [b""]]
    assert tensors["true_cfg_scale"].tolist() == [[3.0], [1.0]]


def test_rows_with_fewer_pictures_end_with_empty_elements():
    pictures = [[b"a", b"b"], None, b"c"]
    rows = [GenerationRequest(prompt="a", input_image=each) for each in pictures]
    assert make_input_tensors(rows)["input_image"].tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]


def test_rows_without_a_mask_have_an_empty_element():
    rows = [GenerationRequest(prompt="a", input_image=b"a", mask_image=mask) for mask in (b"m", None)]
    assert make_input_tensors(rows)["mask_image"].tolist() == [[b"m"], [b""]]


def test_bytes_of_a_picture_arrive_whole():
    content = bytes(range(256)) + b"\0\0"
    assert make_input_tensors(expand_requests("a", image=content))["input_image"].tolist() == [[content]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "at least one"),
        ([{"width": 64}, {"width": 32}], "width differs"),
        ([{"height": 64}, {}], "height is given for some of the 2 rows"),
        ([{"seed": 1}, {}], "seed is given for some"),
        ([{"input_image": b"a", "strength": 0.5}, {}], "strength is given for some"),
        ([{"sigmas": [1.0]}, {"sigmas": [1.0, 0.5]}], "sigmas differ in length"),
        ([{"negative_prompt": ""}, {}], "give true_cfg_scale"),
    ],
)
def test_rows_that_cannot_share_a_request_say_why(rows, words):
    with pytest.raises(InvalidRequest, match=words):
        make_input_tensors([GenerationRequest(prompt="a", **row) for row in rows])
