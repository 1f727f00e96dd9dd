"""The public tensor contract, through plain tritonclient."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.pictures import levels_apart
from tests.serving.raw import USED, ask, metrics, settled

SMALL = {"height": 64, "width": 96, "num_inference_steps": 3}


def test_every_output_has_the_documented_type_and_shape(server):
    outputs = ask(server, ["a red circle", "a star"], outputs=("image", "latents", *USED), **SMALL)
    assert {name: (array.dtype.name, array.shape) for name, array in outputs.items()} == {
        "image": ("uint8", (2, 64, 96, 3)),
        "latents": ("float32", (2, 16, 1, 8, 12)),
        "used_seed": ("int64", (2, 1)),
        "used_num_inference_steps": ("int32", (2, 1)),
        "used_true_cfg_scale": ("float32", (2, 1)),
        "used_width": ("int32", (2, 1)),
        "used_height": ("int32", (2, 1)),
    }
    assert np.isfinite(outputs["latents"]).all()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_is_left_out_takes_the_documented_default(server, protocol):
    used = ask(server, "a red circle", protocol=protocol, outputs=USED)
    assert used["used_num_inference_steps"] == 50
    assert (used["used_height"], used["used_width"]) == (128, 128)  # the tiny checkpoint's own
    assert used["used_true_cfg_scale"] == 1  # no negative prompt: off


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_default_scale_is_four_once_there_is_a_negative_prompt(server, protocol):
    used = ask(server, "a circle", protocol=protocol, negative_prompt="", outputs=("used_true_cfg_scale",), **SMALL)
    assert used["used_true_cfg_scale"] == 4


def test_both_protocols_give_the_same_image(server):
    images = [ask(server, "a star", protocol=p, seed=5, negative_prompt="", **SMALL)["image"] for p in ("grpc", "http")]
    assert levels_apart(*images) <= 1


def test_the_seed_that_was_drawn_is_returned_and_gives_the_image_again(server):
    first = ask(server, ["a star", "a star"], outputs=("image", "used_seed"), **SMALL)
    seeds = first["used_seed"].ravel().tolist()
    assert seeds[0] != seeds[1]
    again = ask(server, ["a star", "a star"], seed=seeds, **SMALL)
    assert levels_apart(again["image"], first["image"]) <= 1
    assert levels_apart(first["image"][0], first["image"][1]) > 1


def test_rows_of_one_request_may_differ_in_everything_but_size(server):
    rows = [
        {"prompt": "a circle", "negative_prompt": "", "num_inference_steps": 2, "true_cfg_scale": 4.0, "seed": 1},
        {"prompt": "two green stars on a table", "negative_prompt": "blurry, low quality", "num_inference_steps": 5}
        | {"true_cfg_scale": 7.5, "seed": 2},
        {"prompt": "a cat", "negative_prompt": "", "num_inference_steps": 3, "true_cfg_scale": 1.0, "seed": 3},
    ]
    together = ask(
        server,
        [row["prompt"] for row in rows],
        outputs=("latents", "used_num_inference_steps"),
        height=64,
        width=64,
        **{name: [row[name] for row in rows] for name in rows[0] if name != "prompt"},
    )
    assert together["used_num_inference_steps"].ravel().tolist() == [2, 5, 3]
    for position, row in enumerate(rows):
        alone = ask(server, row.pop("prompt"), outputs=("latents",), height=64, width=64, **row)
        assert np.abs(together["latents"][position] - alone["latents"][0]).max() < 1e-4


def test_asking_for_latents_alone_does_not_run_the_vae(server):
    before = settled(server, "vae_decoder").inference_count
    ask(server, "a star", outputs=("latents", "used_seed"), **SMALL)
    ask(server, "a star", outputs=("latents", "image"), **SMALL)
    assert settled(server, "vae_decoder").inference_count == before + 1


@pytest.mark.parametrize(("negative_prompt", "is_guided"), [(None, False), ("", True), (" ", True)])
def test_guidance_needs_a_negative_prompt_and_an_empty_one_counts(server, negative_prompt, is_guided):
    given = {} if negative_prompt is None else {"negative_prompt": negative_prompt}
    asked = ask(
        server, "a star", seed=1, true_cfg_scale=4.0, outputs=("latents", "used_true_cfg_scale"), **given, **SMALL
    )
    plain = ask(server, "a star", seed=1, outputs=("latents",), **SMALL)["latents"]
    assert asked["used_true_cfg_scale"] == (4 if is_guided else 1)
    assert (np.abs(asked["latents"] - plain).max() > 1e-2) == is_guided


def test_a_negative_prompt_that_is_not_in_force_is_checked_but_not_encoded(server):
    name = 'qwen_image_text_cache_misses_total{model="text_encoder"}'
    before = metrics(server)[name]
    given = {"negative_prompt": ["a blot, unwanted", "a stain, unwanted"], "true_cfg_scale": [1.0, 3.0]}
    used = ask(server, ["a sloop", "a brig"], outputs=("used_true_cfg_scale",), **given, **SMALL)
    assert used["used_true_cfg_scale"].ravel().tolist() == [1, 3]
    assert metrics(server)[name] - before == 3
    with pytest.raises(InferenceServerException, match=r"negative_prompt has 10\d\d\d tokens"):
        ask(server, "a sloop", negative_prompt="star " * 10_000, true_cfg_scale=1.0)


def test_given_sigmas_set_the_step_count(server):
    used = ask(server, "a star", sigmas=[1.0, 0.6, 0.3], height=64, width=64, outputs=("used_num_inference_steps",))
    assert used["used_num_inference_steps"] == 3


def test_one_step_gives_a_finite_picture(server):
    latents = ask(server, "a star", num_inference_steps=1, height=64, width=64, outputs=("latents",))["latents"]
    assert np.isfinite(latents).all()


def test_repeated_prompts_are_encoded_once(server):
    ask(server, "a prompt nobody else asks for", **SMALL)
    before = metrics(server)
    ask(server, "a prompt nobody else asks for", **SMALL)
    after = metrics(server)
    name = 'qwen_image_text_cache_{}_total{{model="text_encoder"}}'
    assert after[name.format("hits")] == before[name.format("hits")] + 1
    assert after[name.format("misses")] == before[name.format("misses")]


def test_four_requests_of_one_seed_at_once_equal_the_solo_image(server, at_once):
    solo = ask(server, "a star", seed=9, negative_prompt="", outputs=("latents",), **SMALL)["latents"]
    four = at_once(lambda _: ask(server, "a star", seed=9, negative_prompt="", outputs=("latents",), **SMALL), range(4))
    assert max(np.abs(each["latents"] - solo).max() for each in four) < 1e-4
