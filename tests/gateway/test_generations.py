"""Pictures from words, asked for with OpenAI's own client."""

from __future__ import annotations

import base64
import io
import json

import openai
import pytest
from openai.types import ImageGenCompletedEvent, ImageGenPartialImageEvent, ImagesResponse
from PIL import Image

from qwen_image_client import Client
from tests.gateway.running import gateway_over
from tests.pictures import levels_apart

SHORT = {"num_inference_steps": 3}


def opened(b64_json: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(b64_json)))


def test_a_prompt_alone_becomes_a_png_of_the_checkpoints_own_size(client):
    answer = client.images.generate(prompt="a red circle", extra_body=SHORT)
    ImagesResponse.model_validate(answer.model_dump())
    assert (answer.size, answer.output_format, answer.background) == ("128x128", "png", "opaque")
    assert answer.usage.output_tokens == 64
    with opened(answer.data[0].b64_json) as image:
        assert (image.format, image.size) == ("PNG", (128, 128))


def test_it_is_the_picture_that_the_sdk_gets_for_the_same_seed(client, server):
    options = {"negative_prompt": "", "true_cfg_scale": 2.5, "num_inference_steps": 5}
    answer = client.images.generate(prompt="a star", size="96x64", extra_body={**options, "seed": 7})
    with Client(server.grpc_url) as sdk:
        (expected,) = sdk.generate("a star", width=96, height=64, seed=7, **options)
    with opened(answer.data[0].b64_json) as image:
        assert levels_apart(image, expected.image) <= 1


def test_several_pictures_have_seeds_that_follow_each_other_and_their_recipes(client):
    answer = client.images.generate(prompt="a star", n=3, size="64x64", extra_body={**SHORT, "seed": 5})
    assert [each.seed for each in answer.data] == [5, 6, 7]
    assert len({each.b64_json for each in answer.data}) == 3
    with opened(answer.data[1].b64_json) as image:
        recipe = json.loads(image.text["qwen_image_recipe"])
    assert recipe == answer.data[1].recipe
    assert (recipe["seed"], recipe["num_inference_steps"], recipe["width"]) == (6, 3, 64)


def test_without_a_seed_each_picture_gets_another(client):
    answer = client.images.generate(prompt="a star", n=10, size="64x64", extra_body={"num_inference_steps": 1})
    assert len({each.seed for each in answer.data}) == 10


@pytest.mark.parametrize("output_format", ["jpeg", "webp"])
def test_other_formats_are_smaller_the_lower_their_quality(client, output_format):
    sizes = []
    for quality in (100, 20):
        answer = client.images.generate(
            prompt="a star",
            output_format=output_format,
            output_compression=quality,
            extra_body={**SHORT, "seed": 1},
        )
        with opened(answer.data[0].b64_json) as image:
            assert image.format == output_format.upper()
        sizes.append(len(answer.data[0].b64_json))
    assert sizes[0] > sizes[1]


def test_values_that_mean_what_is_done_anyway_are_taken(client):
    answer = client.images.generate(
        model="qwen_image",
        prompt="a star",
        n=1,
        size="auto",
        quality="auto",
        background="auto",
        moderation="auto",
        response_format="b64_json",
        user="somebody",
        extra_body={**SHORT, "guidance_scale": 1},
    )
    assert answer.size == "128x128"
    assert answer.data[0].recipe["true_cfg_scale"] == 1


@pytest.mark.parametrize(
    ("given", "negative_prompt", "scale"),
    [
        ({"guidance_scale": 3}, " ", 3),
        ({"guidance_scale": 3, "negative_prompt": "blurry"}, "blurry", 3),
        ({"guidance_scale": 1, "negative_prompt": "blurry"}, "blurry", 1),
        ({"guidance_scale": 1, "true_cfg_scale": 2.5, "negative_prompt": "blurry"}, "blurry", 2.5),
        ({"guidance_scale": 7.5, "true_cfg_scale": 1}, None, 1),
        ({"guidance_scale": 4, "true_cfg_scale": 4}, " ", 4),
        ({"guidance_scale": 3, "true_cfg_scale": 3, "negative_prompt": ""}, "", 3),
        ({"true_cfg_scale": 3}, " ", 3),
        ({"true_cfg_scale": 1}, None, 1),
        ({"true_cfg_scale": 1, "negative_prompt": None}, None, 1),  # what a recipe without guidance says
        ({"negative_prompt": "blurry"}, "blurry", 4),
        ({}, " ", 4),
    ],
)
def test_guidance_is_on_unless_a_scale_turns_it_off_which_has_two_names(client, given, negative_prompt, scale):
    answer = client.images.generate(prompt="a star", size="64x64", extra_body={**SHORT, **given})
    recipe = answer.data[0].recipe
    assert (recipe["negative_prompt"], recipe["true_cfg_scale"]) == (negative_prompt, scale)


@pytest.mark.parametrize(("partial_images", "steps"), [(0, []), (1, [10]), (2, [7, 13]), (3, [5, 10, 15])])
def test_a_stream_shows_as_many_previews_as_asked_for_evenly_spread(client, partial_images, steps):
    events = list(
        client.images.generate(
            prompt="a star",
            stream=True,
            partial_images=partial_images,
            size="64x64",
            extra_body={"num_inference_steps": 20, "seed": 2},
        )
    )
    *partial, completed = events
    for event in partial:
        ImageGenPartialImageEvent.model_validate(event.model_dump())
    ImageGenCompletedEvent.model_validate(completed.model_dump())
    assert [event.step for event in partial] == steps
    assert [event.partial_image_index for event in partial] == list(range(partial_images))
    assert completed.type == "image_generation.completed"
    assert completed.seed == completed.recipe["seed"] == 2
    assert all(opened(event.b64_json).size == (64, 64) for event in events)


def test_a_stream_of_the_servers_own_step_count_is_spread_too(client):
    events = client.images.generate(prompt="a star", stream=True, partial_images=3, size="64x64")
    assert [event.step for event in events if "partial" in event.type] == [13, 25, 38]


@pytest.mark.asyncio
async def test_the_asynchronous_client_gets_the_same(gateway, client):
    options = {"prompt": "a star", "size": "64x64", "extra_body": {**SHORT, "seed": 9}}
    expected = client.images.generate(**options).data[0].b64_json
    async with gateway.async_client() as asynchronous:
        answer = await asynchronous.images.generate(**options)
        events = [event async for event in await asynchronous.images.generate(stream=True, **options)]
    assert levels_apart(opened(answer.data[0].b64_json), opened(expected)) <= 1
    assert levels_apart(opened(events[-1].b64_json), opened(expected)) <= 1


def test_the_models_are_the_one_that_is_served(client):
    assert [model.id for model in client.models.list()] == ["qwen_image"]
    assert client.models.retrieve("qwen_image").object == "model"


def test_a_model_has_the_names_and_the_default_guidance_that_its_gateway_was_given(server, tmp_path):
    options = ("--served-model-name", "Qwen/Qwen-Image", "--served-model-name", "dall-e-3", "--default-guidance", "off")
    with gateway_over(server.grpc_url, tmp_path, *options) as gateway, gateway.client() as client:
        served = [model.id for model in client.models.list()]
        assert served == ["qwen_image", "Qwen/Qwen-Image", "dall-e-3"]
        for name in served:
            assert client.models.retrieve(name).id == name
            answer = client.images.generate(model=name, prompt="a star", size="64x64", extra_body=SHORT)
            assert answer.data[0].recipe["true_cfg_scale"] == 1
            assert (answer.data[0].url is not None) == (name == "dall-e-3")
        with pytest.raises(openai.NotFoundError, match="qwen_image, Qwen/Qwen-Image, dall-e-3 are its names"):
            client.images.generate(model="dall-e-2", prompt="a star")
