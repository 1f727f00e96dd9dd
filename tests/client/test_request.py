"""One call's options become one request a row, and what the wire can't carry is refused."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from qwen_image_client import GenerationRequest, InvalidRequest
from qwen_image_client._request import expand_edits, expand_requests


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
        ({"strength": "0.5"}, "strength='0.5' must be a number"),
        ({"input_image": 3}, "input_image must be the content or the path .* not int"),
        ({"input_image": []}, "input_image holds no picture"),
        ({"input_image": [b"PNG", b""]}, r"input_image\[1\] is empty"),
        ({"mask_image": [b"PNG"]}, "mask_image must be the content or the path .* not list"),
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


def test_a_picture_may_be_a_files_content_its_path_or_an_image(tmp_path):
    image = Image.new("RGB", (8, 4), "red")
    path = tmp_path / "red.png"
    image.save(path)
    for picture in (path.read_bytes(), bytearray(path.read_bytes()), path, str(path), image):
        (content,) = GenerationRequest(prompt="a", input_image=picture).pictures
        with Image.open(BytesIO(content), formats=["PNG"]) as sent:
            assert np.array_equal(np.asarray(sent), np.asarray(image))


def test_a_files_content_travels_unchanged(tmp_path):
    path = tmp_path / "picture"
    path.write_bytes(b"not ours to judge")
    assert GenerationRequest(prompt="a", input_image=path).pictures == (b"not ours to judge",)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.png"):
        expand_requests("a", image=tmp_path / "missing.png")
    (tmp_path / "empty.png").touch()
    with pytest.raises(InvalidRequest, match=r"images\[0\] .*empty\.png is empty"):
        expand_edits("a", [tmp_path / "empty.png"])


def test_every_image_of_a_call_starts_from_the_same_picture():
    rows = expand_requests(["a", "b"], num_images=2, image=b"start", mask_image=b"mask", strength=1)
    assert [(row.prompt, row.pictures, row.mask, row.strength) for row in rows] == [
        (prompt, (b"start",), b"mask", 1.0) for prompt in "aabb"
    ]


def test_an_image_starts_from_one_picture_and_an_edit_may_have_several():
    with pytest.raises(InvalidRequest, match=r"image must be the content or the path .* not list"):
        expand_requests("a", image=[b"one", b"two"])
    assert [row.pictures for row in expand_edits("a", [b"one", b"two"], seed=7)] == [(b"one", b"two")]
    assert expand_edits("a", b"one")[0].pictures == (b"one",)


def test_an_edit_starts_from_nothing():
    with pytest.raises(TypeError, match="image"):
        expand_edits("a", b"one", image=b"x")
