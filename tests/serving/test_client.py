"""The SDK against a real server: both protocols, blocking and on asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from contextlib import aclosing

import numpy as np
import pytest

from qwen_image_client import (
    AsyncClient,
    Cancelled,
    Client,
    GenerationRequest,
    InvalidRequest,
    ServerError,
    Timeout,
    load_recipe,
)
from tests.serving.raw import metrics, statistics

QUICK = {"height": 64, "width": 96, "num_inference_steps": 3}
LONG = {"height": 512, "width": 512, "num_inference_steps": 150}
PROTOCOLS = ["grpc", "http"]


def url_of(server, protocol):
    return f"{protocol}://{server.grpc_url if protocol == 'grpc' else server.http_url}"


@pytest.fixture(params=PROTOCOLS)
def url(server, request):
    return url_of(server, request.param)


@pytest.fixture
def client(url):
    with Client(url) as client:
        yield client


@pytest.fixture
def streamer(server):
    with Client(server.grpc_url) as client:
        yield client


def pixels(image):
    return np.asarray(image.image, dtype=int)


def cancelled_images(server):
    return sum(value for name, value in metrics(server).items() if name.startswith("qwen_image_cancelled_images_total"))


def rises_by(images, count, server, before):
    """Whether that many more images are counted soon: an image ends at its next step."""
    deadline = time.monotonic() + 20
    while count(server) < before + images and time.monotonic() < deadline:
        pass
    return count(server) == before + images


def wait_until_running(server):
    """Returns once the transformer has made steps for a request that was just sent."""
    before = statistics(server, "dit").execution_count
    while statistics(server, "dit").execution_count < before + 3:
        time.sleep(0.02)


def test_an_image_comes_with_the_recipe_that_was_really_used(client):
    (image,) = client.generate("a red circle", seed=7, **QUICK)
    assert image.image.size == (96, 64)
    assert image.latents is None
    assert image.recipe.as_arguments() == {
        "prompt": "a red circle",
        "negative_prompt": None,
        "seed": 7,
        "num_inference_steps": 3,
        "true_cfg_scale": None,
        "width": 96,
        "height": 64,
        "sigmas": None,
    }


def test_what_is_left_out_is_the_servers_default_and_is_told(client):
    (image,) = client.generate("a", negative_prompt="", num_inference_steps=1)
    assert (image.recipe.width, image.recipe.height, image.recipe.true_cfg_scale) == (128, 128, 4.0)


def test_both_protocols_and_both_clients_make_the_same_image(server):
    async def from_asyncio(url):
        async with AsyncClient(url) as client:
            return (await client.generate("a red circle", seed=7, **QUICK))[0]

    images = []
    for protocol in PROTOCOLS:
        with Client(url_of(server, protocol)) as client:
            images += client.generate("a red circle", seed=7, **QUICK)
        images.append(asyncio.run(from_asyncio(url_of(server, protocol))))
    assert all(np.array_equal(pixels(image), pixels(images[0])) for image in images)


def test_a_drawn_seed_makes_the_image_again(client):
    first, second = client.generate("a red circle", num_images=2, **QUICK)
    assert first.seed != second.seed
    (again,) = client.generate(**first.recipe.as_arguments())
    assert np.abs(pixels(again) - pixels(first)).max() <= 1


def test_a_saved_image_runs_again(client, tmp_path):
    (image,) = client.generate("红色的圆", negative_prompt="blurry", true_cfg_scale=2.1, sigmas=[1.0, 0.6], height=64)
    recipe = load_recipe(image.save(tmp_path / "circle.png"))
    assert (recipe.num_inference_steps, recipe.true_cfg_scale, recipe.sigmas) == (2, 2.1, (1.0, 0.6))
    (again,) = client.generate(**recipe.as_arguments())
    assert np.array_equal(pixels(again), pixels(image))


def test_latents_alone_do_not_run_the_decoder(server, client):
    before = statistics(server, "vae_decoder").execution_count
    (image,) = client.generate("a red circle", outputs=("latents",), **QUICK)
    assert image.image is None
    assert (image.latents.shape, image.latents.dtype) == ((16, 1, 8, 12), np.float32)
    assert statistics(server, "vae_decoder").execution_count == before


def test_rows_with_and_without_negative_prompt_equal_their_solo_runs(client):
    size = {"height": 64, "width": 64, "num_inference_steps": 3, "seed": 5}
    rows = [
        GenerationRequest(prompt="a cat", negative_prompt="blurry", true_cfg_scale=3.0, **size),
        GenerationRequest(prompt="a much longer prompt about a dog", **size),
    ]
    together = client.run(rows)
    for row, image in zip(rows, together, strict=True):
        (alone,) = client.run([row])
        assert np.abs(pixels(alone) - pixels(image)).max() <= 1
        assert alone.recipe.true_cfg_scale == image.recipe.true_cfg_scale


def test_rows_may_differ_in_steps(client):
    rows = [GenerationRequest(prompt="a", num_inference_steps=n, height=64, width=64) for n in (2, 4)]
    assert [image.recipe.num_inference_steps for image in client.run(rows)] == [2, 4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"height": 17}, "height=17"),
        ({"num_inference_steps": 0}, "num_inference_steps=0"),
        ({"true_cfg_scale": float("nan"), "negative_prompt": ""}, "true_cfg_scale=nan"),
        ({"num_images": 100}, "batch-size"),
    ],
)
def test_a_value_out_of_range_is_an_invalid_request(client, options, words):
    with pytest.raises(InvalidRequest, match=words) as caught:
        client.generate("a", request_id="mine", **options)
    assert caught.value.request_id == "mine"


def test_an_unknown_model_is_a_server_error(url):
    with Client(url, model="other") as client:
        assert not client.is_ready()
        with pytest.raises((ServerError, InvalidRequest), match="unknown model"):
            client.generate("a")


def test_a_ready_server_is_ready(client):
    assert client.is_ready()
    client.wait_until_ready(1)


def test_one_client_serves_many_threads(client, at_once):
    images = at_once(lambda seed: client.generate("a", seed=seed, **QUICK)[0], range(8))
    assert [image.seed for image in images] == list(range(8))


def test_a_stream_previews_every_step_and_ends_with_the_image(streamer):
    previews = list(streamer.stream("a red circle", seed=7, num_images=2, **QUICK))
    assert [(preview.step, preview.is_final) for preview in previews] == [(1, False), (2, False), (3, True)]
    assert {preview.num_inference_steps for preview in previews} == {3}
    images = streamer.generate("a red circle", seed=7, num_images=2, **QUICK)
    for last, image in zip(previews[-1].images, images, strict=True):
        assert np.abs(pixels(last) - pixels(image)).max() <= 1
        assert last.recipe.as_arguments() == image.recipe.as_arguments()


def test_a_stream_of_progress_alone_decodes_nothing(server, streamer):
    before = statistics(server, "vae_decoder").execution_count
    assert [preview.step for preview in streamer.stream("a", outputs=(), **QUICK)] == [1, 2, 3]
    assert statistics(server, "vae_decoder").execution_count == before


def test_a_stream_says_what_is_wrong_with_its_request(streamer):
    with pytest.raises(InvalidRequest, match="height=17"):
        next(streamer.stream("a", height=17))


def test_several_streams_share_a_client(streamer, at_once):
    last = at_once(lambda seed: list(streamer.stream("a", seed=seed, **QUICK))[-1], range(4))
    assert [preview.images[0].seed for preview in last] == list(range(4))


def test_closing_a_stream_ends_its_work_and_leaves_no_thread(server, streamer):
    next(streamer.stream("a", **QUICK))
    before, threads = cancelled_images(server), threading.active_count()
    for preview in streamer.stream("a", outputs=(), num_images=2, **LONG):
        if preview.step == 2:
            break
    assert rises_by(2, cancelled_images, server, before)
    assert streamer.cancel(preview.request_id) == 0
    deadline = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= threads


def test_reading_a_stream_to_its_last_preview_cancels_nothing(server, streamer):
    before = cancelled_images(server)
    for preview in streamer.stream("a", **QUICK):
        if preview.is_final:
            break
    assert cancelled_images(server) == before


def test_cancelling_by_id_ends_the_call_of_another_client(server, client, at_once):
    request_id = uuid.uuid4().hex

    def first(_):
        with pytest.raises(Cancelled) as caught:
            client.generate("a", num_images=2, request_id=request_id, **LONG)
        return caught.value

    def second(_):
        wait_until_running(server)
        with Client(server.grpc_url) as other:
            return other.cancel(request_id)

    error, count = at_once(lambda call: call(None), [first, second])
    assert error.request_id == request_id
    assert count == 2


def test_a_cancelled_stream_says_so(server, streamer):
    request_id = uuid.uuid4().hex
    previews = streamer.stream("a", outputs=(), request_id=request_id, **LONG)
    assert next(previews).step == 1
    assert streamer.cancel(request_id) == 1
    with pytest.raises(Cancelled):
        list(previews)


def test_an_id_cancelled_before_it_arrives_is_ended_on_arrival(client):
    request_id = uuid.uuid4().hex
    assert client.cancel(request_id) == 0
    with pytest.raises(Cancelled):
        client.generate("a", request_id=request_id, **QUICK)


def test_a_timeout_ends_the_work(server, client):
    before = cancelled_images(server)
    with pytest.raises(Timeout) as caught:
        client.generate("a", timeout_s=1.0, **LONG)
    assert caught.value.__notes__ == ["ended on the server: 1 image"]
    assert rises_by(1, cancelled_images, server, before)


def test_a_streams_timeout_ends_the_work(server, streamer):
    before = cancelled_images(server)
    with pytest.raises(Timeout):
        list(streamer.stream("a", outputs=(), timeout_s=1.0, **LONG))
    assert rises_by(1, cancelled_images, server, before)


@pytest.mark.asyncio
async def test_a_cancelled_task_ends_its_work(server, url):
    before = cancelled_images(server)
    async with AsyncClient(url) as client:
        task = asyncio.create_task(client.generate("a", **LONG))
        await asyncio.to_thread(wait_until_running, server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert rises_by(1, cancelled_images, server, before)


@pytest.mark.asyncio
async def test_an_async_timeout_ends_the_work(server, url):
    before = cancelled_images(server)
    async with AsyncClient(url) as client:
        with pytest.raises(Timeout):
            await client.generate("a", timeout_s=1.0, **LONG)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await client.generate("a", **LONG)
    assert rises_by(2, cancelled_images, server, before)


@pytest.mark.asyncio
async def test_an_async_stream_previews_and_is_ended_when_closed(server):
    async with AsyncClient(server.grpc_url) as client:
        assert await client.is_ready()
        previews = [preview async for preview in client.stream("a red circle", seed=7, **QUICK)]
        assert [(preview.step, preview.is_final) for preview in previews] == [(1, False), (2, False), (3, True)]
        (image,) = await client.generate("a red circle", seed=7, **QUICK)
        assert np.array_equal(pixels(previews[-1].images[0]), pixels(image))
        before = cancelled_images(server)
        async with aclosing(client.stream("a", outputs=(), **LONG)) as stream:
            async for preview in stream:
                if preview.step == 2:
                    break
        assert rises_by(1, cancelled_images, server, before)


@pytest.mark.asyncio
async def test_async_calls_run_side_by_side(server, url):
    async with AsyncClient(url) as client:
        calls = [client.generate("a", seed=seed, **QUICK) for seed in range(6)]
        assert [image.seed for (image,) in await asyncio.gather(*calls)] == list(range(6))


@pytest.mark.asyncio
async def test_async_errors_are_the_same(url):
    async with AsyncClient(url) as client:
        with pytest.raises(InvalidRequest, match="height=17"):
            await client.generate("a", height=17)
