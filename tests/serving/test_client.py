"""The SDK against a real server: both protocols, blocking and on asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from contextlib import aclosing

import numpy as np
import pytest
from PIL import Image

from qwen_image_client import (
    AsyncClient,
    Cancelled,
    Client,
    GenerationRequest,
    InvalidRequest,
    ServerError,
    ServerUnreachable,
    Timeout,
    load_recipe,
)
from tests import pictures
from tests.pictures import levels_apart
from tests.serving.raw import metrics, settled, statistics

QUICK = {"height": 64, "width": 96, "num_inference_steps": 3}
LONG = {"height": 768, "width": 768, "num_inference_steps": 200}
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


@pytest.fixture(params=PROTOCOLS)
def editor(edit_server, request):
    with Client(url_of(edit_server, request.param)) as client:
        yield client


@pytest.fixture
def streamer(server):
    with Client(server.grpc_url) as client:
        yield client


@pytest.fixture
def picture():
    return pictures.picture(96, 64)


@pytest.fixture
def right_half():
    return pictures.right_half(96, 64)


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
        "cfg_start": None,
        "cfg_end": None,
        "width": 96,
        "height": 64,
        "sigmas": None,
        "image": None,
        "strength": None,
        "mask_image": None,
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
    assert all(levels_apart(pixels(image), pixels(images[0])) <= 1 for image in images)


def test_a_drawn_seed_makes_the_image_again(client):
    first, second = client.generate("a red circle", num_images=2, **QUICK)
    assert first.seed != second.seed
    (again,) = client.generate(**first.recipe.as_arguments())
    assert levels_apart(pixels(again), pixels(first)) <= 1


def test_a_saved_image_runs_again(client, tmp_path):
    (image,) = client.generate("红色的圆", negative_prompt="blurry", true_cfg_scale=2.1, sigmas=[1.0, 0.6], height=64)
    recipe = load_recipe(image.save(tmp_path / "circle.png"))
    assert (recipe.num_inference_steps, recipe.true_cfg_scale, recipe.sigmas) == (2, 2.1, (1.0, 0.6))
    (again,) = client.generate(**recipe.as_arguments())
    assert levels_apart(pixels(again), pixels(image)) <= 1


def test_guidance_in_a_part_of_the_steps_runs_again(client, tmp_path):
    options = {"negative_prompt": "blurry", "seed": 7, **QUICK}
    whole, part = (client.generate("a red circle", **options, **more)[0] for more in ({}, {"cfg_end": 0.3}))
    assert levels_apart(pixels(part), pixels(whole)) > 1
    recipe = load_recipe(part.save(tmp_path / "circle.png"))
    (again,) = client.generate(**recipe.as_arguments())
    assert levels_apart(pixels(again), pixels(part)) <= 1


def test_a_server_tells_its_task_its_defaults_and_its_limits(client):
    info = client.server_info()
    assert (info.task, info.family) == ("generate", "QwenImagePipeline")
    (image,) = client.generate("a", num_inference_steps=1)
    assert (image.recipe.width, image.recipe.height) == (info.defaults["width"], info.defaults["height"])
    with pytest.raises(InvalidRequest, match=f"{info.limits['max_side']}"):
        client.generate("a", width=info.limits["max_side"] + info.limits["size_multiple"])


def test_an_edit_server_tells_its_own(editor):
    info = editor.server_info()
    assert (info.task, info.limits["max_input_images"]) == ("edit", 3)
    assert "strength" not in info.defaults


def test_latents_alone_do_not_run_the_decoder(server, client):
    before = settled(server, "vae_decoder").execution_count
    (image,) = client.generate("a red circle", outputs=("latents",), **QUICK)
    assert image.image is None
    assert (image.latents.shape, image.latents.dtype) == ((16, 1, 8, 12), np.float32)
    assert settled(server, "vae_decoder").execution_count == before


def test_rows_with_and_without_negative_prompt_equal_their_solo_runs(client):
    size = {"height": 64, "width": 64, "num_inference_steps": 3, "seed": 5}
    rows = [
        GenerationRequest(prompt="a cat", negative_prompt="blurry", true_cfg_scale=3.0, **size),
        GenerationRequest(prompt="a much longer prompt about a dog", **size),
    ]
    together = client.run(rows)
    for row, image in zip(rows, together, strict=True):
        (alone,) = client.run([row])
        assert levels_apart(pixels(alone), pixels(image)) <= 1
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
        assert levels_apart(pixels(last), pixels(image)) <= 1
        assert last.recipe.as_arguments() == image.recipe.as_arguments()


def test_a_stream_of_progress_alone_decodes_nothing(server, streamer):
    before = settled(server, "vae_decoder").execution_count
    assert [preview.step for preview in streamer.stream("a", outputs=(), **QUICK)] == [1, 2, 3]
    assert settled(server, "vae_decoder").execution_count == before


def test_a_stream_decodes_as_many_previews_as_it_is_asked_for(streamer):
    previews = list(streamer.stream("a", num_inference_steps=6, height=64, width=64, num_previews=2))
    assert [preview.step for preview in previews if preview.images[0].image is not None] == [2, 4, 6]


def test_a_stream_says_what_is_wrong_with_its_request(streamer):
    with pytest.raises(InvalidRequest, match="height=17"):
        next(streamer.stream("a", height=17))


def test_many_refused_streams_leave_the_server_as_it_was(server, streamer):
    for _ in range(60):
        with pytest.raises(InvalidRequest, match="seed=-5"):
            list(streamer.stream("a star", seed=-5))
    assert server.process.poll() is None
    assert [preview.step for preview in streamer.stream("a star", num_inference_steps=2)] == [1, 2]


def test_several_streams_share_a_client(streamer, at_once):
    last = at_once(lambda seed: list(streamer.stream("a", seed=seed, **QUICK))[-1], range(4))
    assert [preview.images[0].seed for preview in last] == list(range(4))


def test_closing_a_stream_ends_its_work_and_leaves_no_thread(server, streamer):
    list(streamer.stream("a", **QUICK))
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
    before = settled(server, "qwen_image_cancel").inference_count
    for preview in streamer.stream("a", **QUICK):
        if preview.is_final:
            break
    assert settled(server, "qwen_image_cancel").inference_count == before


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
        assert levels_apart(pixels(previews[-1].images[0]), pixels(image)) <= 1
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


def test_an_image_starts_from_a_picture_and_tells_the_steps_really_made(client, picture):
    options = {"image": picture, "strength": 0.5, "seed": 7, "height": 64, "width": 96, "num_inference_steps": 6}
    (image,) = client.generate("a red circle", **options)
    (from_noise,) = client.generate("a red circle", **{**options, "image": None, "strength": None})
    assert image.recipe.num_inference_steps == 3
    assert levels_apart(pixels(image), pixels(from_noise)) > 1
    assert image.mask is None


def test_without_a_size_an_image_has_its_pictures_shape(client, picture):
    (image,) = client.generate("a", image=picture, num_inference_steps=2)
    assert image.image.size == (160, 112)  # about 128 x 128 pixels at 3 to 2


def test_inpainting_keeps_the_picture_where_the_mask_is_black(client, picture, right_half):
    (image,) = client.generate("a red circle", image=picture, mask_image=right_half, **QUICK)
    assert np.array_equal(pixels(image)[:, :48], np.asarray(picture, int)[:, :48])
    assert not np.array_equal(pixels(image)[:, 48:], np.asarray(picture, int)[:, 48:])
    assert np.array_equal(np.asarray(image.mask), np.asarray(right_half))


def test_a_mask_that_was_asked_for_and_not_sent_is_all_white(client, picture):
    (image,) = client.generate("a", image=picture, outputs=("image", "mask"), **QUICK)
    assert (image.mask.size, image.mask.getextrema()) == ((96, 64), (255, 255))


def test_a_saved_inpainting_runs_again_with_its_pictures(client, picture, right_half, tmp_path):
    (image,) = client.generate("a", image=picture, mask_image=right_half, strength=0.7, **QUICK)
    recipe = load_recipe(image.save(tmp_path / "inpainted.png"))
    (again,) = client.generate(**recipe.as_arguments(image=picture, mask_image=right_half))
    assert levels_apart(pixels(again), pixels(image)) <= 1
    assert again.recipe.image_sha256 == recipe.image_sha256


def test_rows_with_and_without_a_picture_share_a_request(client, picture, right_half):
    size = {"prompt": "a", "height": 64, "width": 96, "num_inference_steps": 4, "seed": 5}
    rows = [
        GenerationRequest(input_image=picture, mask_image=right_half, **size),
        GenerationRequest(input_image=picture, **size),
        GenerationRequest(**size),
    ]
    images = client.run(rows)
    assert [image.recipe.num_inference_steps for image in images] == [3, 3, 4]
    assert [image.mask.getextrema() for image in images] == [(0, 255), (255, 255), (255, 255)]
    for row, image in zip(rows, images, strict=True):
        (alone,) = client.run([row])
        assert levels_apart(pixels(alone), pixels(image)) <= 1


def test_a_stream_from_a_picture_counts_the_steps_really_made(streamer, picture, right_half):
    options = {"image": picture, "mask_image": right_half, "seed": 7, "height": 64, "width": 96}
    previews = list(streamer.stream("a", num_inference_steps=6, strength=0.5, **options))
    assert [(preview.step, preview.num_inference_steps) for preview in previews] == [(1, 3), (2, 3), (3, 3)]
    (image,) = streamer.generate("a", num_inference_steps=6, strength=0.5, **options)
    assert levels_apart(pixels(previews[-1].images[0]), pixels(image)) <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strength": 0.5}, "strength=0.5 of row 0 comes without input_image"),
        ({"mask_image": b"x"}, "mask_image of row 0 comes without input_image"),
        ({"image": b"GIF89a"}, "input_image 0 of row 0 is a GIF"),
    ],
)
def test_the_server_says_what_is_wrong_with_a_picture(client, options, words):
    with pytest.raises(InvalidRequest, match=words):
        client.generate("a", **options, **QUICK)


def test_an_edit_looks_at_every_picture(editor, picture, tmp_path):
    both = {"outputs": ("image", "latents"), "seed": 7, **QUICK}
    (one,) = editor.edit("make it blue", picture, **both)
    (two,) = editor.edit("make it blue", [picture, Image.new("RGB", (40, 60), "red")], **both)
    assert one.image.size == two.image.size == (96, 64)
    assert np.abs(one.latents - two.latents).max() > 1e-3  # little, in a transformer of random weights
    recipe = load_recipe(one.save(tmp_path / "edited.png"))
    assert (recipe.task, recipe.model, len(recipe.image_sha256)) == ("edit", "qwen_image_edit", 1)
    (again,) = editor.edit(**recipe.as_edit_arguments(picture))
    assert levels_apart(pixels(again), pixels(one)) <= 1


def test_rows_of_edits_may_have_different_numbers_of_pictures(editor, picture):
    size = {"prompt": "a", "height": 64, "width": 96, "num_inference_steps": 3, "seed": 5}
    rows = [GenerationRequest(input_image=[picture] * count, **size) for count in (2, 1)]
    for row, image in zip(rows, editor.run(rows, task="edit"), strict=True):
        (alone,) = editor.run([row], task="edit")
        assert levels_apart(pixels(alone), pixels(image)) <= 1


def test_a_stream_of_edits_ends_with_the_image(edit_server, picture):
    with Client(edit_server.grpc_url) as client:
        previews = list(client.stream_edit("make it blue", [picture, picture], seed=7, **QUICK))
        assert [(preview.step, preview.is_final) for preview in previews] == [(1, False), (2, False), (3, True)]
        (image,) = client.edit("make it blue", [picture, picture], seed=7, **QUICK)
    assert levels_apart(pixels(previews[-1].images[0]), pixels(image)) <= 1


def test_closing_a_stream_of_edits_ends_its_work(edit_server, picture):
    before = cancelled_images(edit_server)
    with Client(edit_server.grpc_url) as client:
        for preview in client.stream_edit("a", picture, outputs=(), **LONG | {"height": 256, "width": 256}):
            if preview.step == 2:
                break
    assert rises_by(1, cancelled_images, edit_server, before)


@pytest.mark.asyncio
async def test_the_async_client_starts_from_pictures_and_edits_them(server, edit_server, picture, right_half):
    async with AsyncClient(server.grpc_url) as client:
        (image,) = await client.generate("a", image=picture, mask_image=right_half, seed=7, **QUICK)
    async with AsyncClient(edit_server.grpc_url) as client:
        (edited,) = await client.edit("a", picture, seed=7, **QUICK)
        previews = [preview async for preview in client.stream_edit("a", picture, seed=7, **QUICK)]
    with Client(server.grpc_url) as sync, Client(edit_server.grpc_url) as editor:
        (same,) = sync.generate("a", image=picture, mask_image=right_half, seed=7, **QUICK)
        (same_edit,) = editor.edit("a", picture, seed=7, **QUICK)
    assert levels_apart(pixels(image), pixels(same)) <= 1
    assert levels_apart(pixels(edited), pixels(same_edit)) <= 1
    assert levels_apart(pixels(previews[-1].images[0]), pixels(edited)) <= 1


def test_a_server_of_the_other_kind_says_so(client, editor, picture):
    with pytest.raises(InvalidRequest, match="serves text to image: its checkpoint is no edit checkpoint"):
        client.edit("a", picture, **QUICK)
    with pytest.raises(InvalidRequest, match="this server edits pictures"):
        editor.generate("a", **QUICK)


@pytest.mark.asyncio
async def test_streams_and_async_calls_to_a_server_of_the_other_kind_say_so(streamer, edit_server, picture):
    with pytest.raises(InvalidRequest, match="no edit checkpoint"):
        next(streamer.stream_edit("a", picture, **QUICK))
    async with AsyncClient(edit_server.grpc_url) as client:
        assert await client.is_ready()
        with pytest.raises(InvalidRequest, match="this server edits pictures"):
            await client.generate("a", **QUICK)
        with pytest.raises(InvalidRequest, match="this server edits pictures"):
            await anext(client.stream("a", **QUICK))


def test_an_edit_server_is_ready(editor):
    assert editor.is_ready()


@pytest.mark.parametrize(
    ("protocol", "port", "hint"),
    [("grpc", "http_url", "if this is Triton's HTTP port"), ("http", "grpc_url", "if this is Triton's gRPC port")],
)
def test_the_port_of_the_other_protocol_is_told_as_such(server, protocol, port, hint):
    url = f"{protocol}://{getattr(server, port)}"

    async def ask() -> None:
        async with AsyncClient(url, retries=0) as client:
            await client.cancel("an-id")

    with pytest.raises(ServerUnreachable, match=hint), Client(url, retries=0) as client:
        client.cancel("an-id")
    with pytest.raises(ServerUnreachable, match=hint):
        asyncio.run(ask())
