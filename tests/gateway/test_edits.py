"""Pictures changed, on a checkpoint that paints and on one that edits."""

from __future__ import annotations

import base64
import io

import numpy as np
import openai
import pytest
from openai.types import ImageEditCompletedEvent, ImageEditPartialImageEvent
from PIL import Image

from tests.gateway.running import gateway_over
from tests.pictures import levels_apart, picture, png, right_half

SHORT = {"num_inference_steps": 3, "seed": 1}
PHOTO = picture(128, 128)


@pytest.fixture(scope="module")
def editing_client(edit_server, tmp_path_factory):
    """Of a gateway over a Triton that serves an edit checkpoint for up to three pictures."""
    with gateway_over(edit_server.grpc_url, tmp_path_factory.mktemp("editing")) as gateway, gateway.client() as client:
        yield client


def pixels(answer) -> np.ndarray:
    with Image.open(io.BytesIO(base64.b64decode(answer.data[0].b64_json))) as image:
        return np.asarray(image)


def alpha_mask() -> Image.Image:
    """OpenAI's kind: transparent, to be painted, on the right, and all of one colour."""
    mask = Image.new("RGBA", PHOTO.size, (200, 10, 10, 255))
    mask.putalpha(Image.eval(right_half(*PHOTO.size), lambda grey: 255 - grey))
    return mask


def test_image_to_image_goes_as_far_as_strength_says(client):
    weak, strong = (
        pixels(client.images.edit(image=png(PHOTO), prompt="a star", extra_body={**SHORT, "strength": strength}))
        for strength in (0.3, 1.0)
    )
    photo = np.asarray(PHOTO, np.int16)
    assert np.abs(weak - photo).mean() < np.abs(strong - photo).mean()


def test_a_transparent_mask_and_a_grey_one_paint_the_same_place(client):
    options = {"image": png(PHOTO), "prompt": "a star", "extra_body": {**SHORT, "strength": 1.0}}
    by_alpha = pixels(client.images.edit(mask=png(alpha_mask()), **options))
    by_grey = pixels(client.images.edit(mask=png(right_half(*PHOTO.size)), **options))
    assert levels_apart(by_alpha, by_grey) <= 1
    assert np.array_equal(by_alpha[:, :64], np.asarray(PHOTO)[:, :64])
    assert not np.array_equal(by_alpha[:, 64:], np.asarray(PHOTO)[:, 64:])


def test_a_stream_of_edits_has_its_own_names(client):
    events = list(
        client.images.edit(
            image=("photo.png", png(PHOTO)),
            prompt="a star",
            stream=True,
            partial_images=1,
            extra_body={"num_inference_steps": 10, "strength": 0.5},
        )
    )
    assert [event.type for event in events] == ["image_edit.partial_image", "image_edit.completed"]
    ImageEditPartialImageEvent.model_validate(events[0].model_dump())
    ImageEditCompletedEvent.model_validate(events[1].model_dump())
    assert (events[0].step, events[0].num_inference_steps) == (3, 5)


@pytest.mark.parametrize("pictures", [1, 3])
def test_an_edit_checkpoint_looks_at_one_picture_or_several(editing_client, pictures):
    files = [png(picture(128, 128, seed)) for seed in range(pictures)]
    image = files[0] if pictures == 1 else files
    answer = editing_client.images.edit(image=image, prompt="make it blue", size="64x64", extra_body=SHORT)
    assert answer.size == "64x64"
    assert len(answer.data[0].recipe["image_sha256"]) == pictures
    assert answer.data[0].recipe["task"] == "edit"


def test_an_edit_checkpoint_streams(editing_client):
    events = editing_client.images.edit(
        image=png(PHOTO), prompt="make it blue", size="64x64", stream=True, partial_images=2, extra_body=SHORT
    )
    assert [event.type.split(".")[1] for event in events] == ["partial_image", "partial_image", "completed"]


@pytest.mark.parametrize(
    ("options", "param", "words"),
    [
        ({"mask": png(alpha_mask())}, "mask", "takes no mask"),
        ({"extra_body": {"strength": 0.5}}, "strength", "takes no strength"),
        ({"image": [png(PHOTO)] * 4}, "image", "at most 3|1 to 3|3 pictures"),
    ],
)
def test_an_edit_checkpoint_refuses_what_it_has_no_use_for(editing_client, options, param, words):
    with pytest.raises(openai.UnprocessableEntityError, match=words) as refused:
        editing_client.images.edit(**{"image": png(PHOTO), "prompt": "make it blue", **options})
    assert refused.value.param == param


def test_an_edit_checkpoint_is_the_model_and_does_not_paint_from_words(editing_client):
    assert [model.id for model in editing_client.models.list()] == ["qwen_image_edit"]
    with pytest.raises(openai.UnprocessableEntityError, match="/v1/images/edits"):
        editing_client.images.generate(prompt="a star")
