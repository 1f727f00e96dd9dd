"""The streaming ensemble: a response after every step, the last one the unary image."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.pictures import levels_apart
from tests.serving.raw import USED, ask, stream

RECIPE = {"height": 64, "width": 96, "seed": 3, "negative_prompt": ""}


def test_every_step_brings_its_number_and_a_preview(server):
    previews = list(stream(server, "a star", num_inference_steps=5, **RECIPE))
    assert [int(each["step"][0, 0]) for each in previews] == [1, 2, 3, 4, 5]
    assert all(each["image"].shape == (1, 64, 96, 3) for each in previews)


def test_the_last_response_is_the_unary_image(server):
    names = ("image", "latents", *USED)
    *_, last = stream(server, "a star", outputs=names, num_inference_steps=4, **RECIPE)
    unary = ask(server, "a star", outputs=names, num_inference_steps=4, **RECIPE)
    assert all(np.array_equal(last[name], unary[name]) for name in USED)
    assert np.abs(last["latents"] - unary["latents"]).max() < 1e-4
    assert levels_apart(last["image"], unary["image"]) <= 1


def test_previews_converge(server):
    *previews, last = [
        each["image"].astype(float) for each in stream(server, "a star", num_inference_steps=8, **RECIPE)
    ]
    distances = [np.abs(preview - last).mean() for preview in previews]
    assert distances[-1] < distances[0]


def test_rows_of_a_streamed_request_may_take_different_numbers_of_steps(server):
    frames = list(stream(server, ["a star", "a cat"], height=64, width=64, num_inference_steps=[2, 4], seed=[1, 2]))
    assert [frame["step"].ravel().tolist() for frame in frames] == [[1, 1], [2, 2], [2, 3], [2, 4]]
    short = ask(server, "a star", height=64, width=64, num_inference_steps=2, seed=1)["image"]
    assert levels_apart(frames[-1]["image"][:1], short) <= 1


def test_a_stream_without_images_does_not_need_them(server):
    steps = [each["step"].item() for each in stream(server, "a star", outputs=("step",), num_inference_steps=3)]
    assert steps == [1, 2, 3]


def test_a_bad_request_on_a_stream_is_an_error_and_the_next_one_works(server):
    with pytest.raises(InferenceServerException, match=r"height=65 must be a multiple of 16"):
        list(stream(server, "a star", height=65))
    assert len(list(stream(server, "a star", height=64, width=64, num_inference_steps=2))) == 2


@pytest.mark.parametrize(
    ("preview_every", "decoded"), [(0, []), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (2**31 - 1, [5])]
)
def test_pictures_are_decoded_as_often_as_asked(server, preview_every, decoded):
    frames = list(stream(server, "a star", num_inference_steps=5, preview_every=preview_every, **RECIPE))
    assert [frame["step"].item() for frame in frames] == [1, 2, 3, 4, 5]
    assert [frame["step"].item() for frame in frames if frame["image"].size] == decoded


@pytest.mark.parametrize(("num_previews", "decoded"), [(0, [6]), (1, [3, 6]), (2, [2, 4, 6]), (9, [1, 2, 3, 4, 5, 6])])
def test_so_many_previews_are_spaced_evenly(server, num_previews, decoded):
    frames = list(stream(server, "a star", num_inference_steps=6, num_previews=num_previews, **RECIPE))
    assert [step for step, frame in enumerate(frames, start=1) if frame["image"].size] == decoded


def test_a_negative_preview_every_is_refused(server):
    with pytest.raises(InferenceServerException, match=r"preview_every=-1 must be 0 or more"):
        list(stream(server, "a star", preview_every=-1))
    with pytest.raises(InferenceServerException, match=r"num_previews=-1 must be 0 or more"):
        list(stream(server, "a star", num_previews=-1))


def test_two_ways_to_say_when_to_decode_are_refused(server):
    with pytest.raises(InferenceServerException, match=r"preview_every=1 and num_previews=2 both say when to decode"):
        list(stream(server, "a star", preview_every=1, num_previews=2))
