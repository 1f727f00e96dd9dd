"""Bad input is INVALID_ARGUMENT with field, value and range, before any GPU work, and harms nobody else."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.serving.raw import ask, columns, inputs_for, statistics, stream

NAN, INFINITY = float("nan"), float("inf")
OUT_OF_RANGE = [
    ({"height": 65}, r"height=65 must be a multiple of 16 between 64 and 2048; the nearest is 64"),
    ({"width": 72}, r"width=72 must be a multiple of 16 .* the nearest is (64|80)"),
    ({"height": 0}, r"height=0 must be a multiple of 16 between 64 and 2048; the nearest is 64"),
    ({"width": -64}, r"width=-64 must be a multiple of 16"),
    ({"height": 2**31 - 1}, r"height=2147483647 must be .* the nearest is 2048"),
    ({"num_inference_steps": 0}, r"num_inference_steps=0 must be between 1 and 200"),
    ({"num_inference_steps": -3}, r"num_inference_steps=-3 must be between 1 and 200"),
    ({"num_inference_steps": 10**9}, r"num_inference_steps=1000000000 must be between 1 and 200"),
    ({"height": 2048, "width": 2048, "num_inference_steps": 101}, r"over the budget .* at most 100 steps are allowed"),
    ({"true_cfg_scale": NAN}, r"true_cfg_scale=nan must be a finite number between 0 and 50"),
    ({"true_cfg_scale": INFINITY}, r"true_cfg_scale=inf must be a finite number"),
    ({"true_cfg_scale": -1.0}, r"true_cfg_scale=-1 must be a finite number"),
    ({"true_cfg_scale": 1e30}, r"true_cfg_scale=1e\+30 must be a finite number"),
    ({"seed": -1}, r"seed=-1 must be between 0 and 9223372036854775807; leave it out to have one drawn"),
    ({"sigmas": [1.0, NAN]}, r"sigmas\[1\]=nan must be a finite number above 0 and at most 1"),
    ({"sigmas": [1.0, 0.0]}, r"sigmas\[1\]=0 must be a finite number above 0"),
    ({"sigmas": [1.5, 0.5]}, r"sigmas\[0\]=1.5 must be"),
    ({"sigmas": [0.5, 0.5]}, r"sigmas\[1\]=0.5 must be below the one before it, 0.5"),
    ({"sigmas": []}, r"sigmas has 0 values; between 1 and 200 are allowed"),
    ({"sigmas": [1.0, 0.5], "num_inference_steps": 3}, r"num_inference_steps=3 but sigmas has 2 values"),
    ({"prompt": ""}, r"prompt='' is empty"),
    ({"prompt": "  \n"}, r"prompt='  \\n' is empty"),
    ({"prompt": "star " * 10_000}, r"prompt has 10\d\d\d tokens with the template's end; at most 1024 are allowed"),
    ({"prompt": "star " * 1_100}, r"prompt has 1\d\d\d tokens .* at most 1024"),
    ({"negative_prompt": "star " * 10_000}, r"negative_prompt has 10\d\d\d tokens"),
    ({"prompt": "x" * 100_001}, r"prompt has 100001 bytes; at most 100000 are allowed"),
    ({"prompt": b"caf\xe9"}, r"prompt of row 0 is not valid UTF-8: byte 0xe9 at position 3"),
    ({"negative_prompt": b"\xff"}, r"negative_prompt of row 0 is not valid UTF-8"),
]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(("values", "message"), OUT_OF_RANGE, ids=lambda value: str(value)[:40])
def test_a_value_out_of_range_names_field_value_and_range(server, values, message, protocol):
    steps = statistics(server, "dit").inference_count
    with pytest.raises(InferenceServerException, match=message) as caught:
        ask(
            server,
            values.get("prompt", "a star"),
            protocol=protocol,
            **{k: v for k, v in values.items() if k != "prompt"},
        )
    assert caught.value.status() == {"grpc": "StatusCode.INVALID_ARGUMENT", "http": "400"}[protocol]
    assert statistics(server, "dit").inference_count == steps


def test_rows_of_unequal_size_are_refused(server):
    with pytest.raises(InferenceServerException, match=r"width differs between rows \(64, 96\)"):
        ask(server, ["a star", "a cat"], width=[64, 96])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 5], r"preview_every differs between rows \(0, 5\): .* send other values as requests of their own"),
        ([-1, -1], r"preview_every=-1 must be 0 or more"),
    ],
)
def test_previews_that_a_stream_can_not_give_are_refused_before_anything_is_computed(server, given, message):
    encoded = statistics(server, "text_encoder").inference_count
    with pytest.raises(InferenceServerException, match=rf"{message}.* \[INVALID_ARGUMENT\]"):
        list(stream(server, ["a star", "a cat"], preview_every=given))
    assert statistics(server, "text_encoder").inference_count == encoded


def test_rows_that_agree_on_their_previews_all_get_them(server):
    given = {"height": 64, "width": 64, "num_inference_steps": 3, "preview_every": [2, 2]}
    frames = list(stream(server, ["a star", "a cat"], **given))
    assert [frame["image"].shape for frame in frames] == [(2, 0, 0, 3), (2, 64, 64, 3), (2, 64, 64, 3)]


def test_the_bad_row_of_a_request_is_named_by_its_value(server):
    with pytest.raises(InferenceServerException, match=r"num_inference_steps=0 must be"):
        ask(server, ["a star", "a cat"], num_inference_steps=[4, 0])


def test_more_rows_than_a_request_may_have_are_refused(server):
    with pytest.raises(InferenceServerException, match=r"batch-size must be <= 8") as caught:
        ask(server, ["a star"] * 9)
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("height", np.array([[64, 64]], np.int32), "height"),
        ("height", np.array([64], np.int32), "height"),
        ("true_cfg_scale", np.array([[4.0]], np.float64), "true_cfg_scale"),
        ("seed", np.array([[1]], np.int32), "seed"),
        ("sigmas", np.array([[[1.0]]], np.float32), "sigmas"),
    ],
)
def test_a_wrong_shape_or_type_names_the_input(server, name, array, message):
    wrong = grpcclient.InferInput(
        name, list(array.shape), {"f8": "FP64", "i4": "INT32", "f4": "FP32"}[array.dtype.str[1:]]
    )
    wrong.set_data_from_numpy(array)
    with (
        grpcclient.InferenceServerClient(server.grpc_url) as client,
        pytest.raises(InferenceServerException, match=message) as caught,
    ):
        client.infer("qwen_image", [*inputs_for(grpcclient, columns("a star")), wrong])
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_an_unknown_input_is_refused(server):
    body = {
        "inputs": [{"name": n, "shape": [1, 1], "datatype": "BYTES", "data": ["a star"]} for n in ("prompt", "style")]
    }
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/qwen_image/infer", json.dumps(body).encode(), method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    assert caught.value.code == 400
    assert "style" in caught.value.read().decode()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_an_unknown_parameter_is_refused_and_not_ignored(server, protocol):
    with pytest.raises(InferenceServerException, match="unknown request parameter guidance_scale"):
        ask(server, "a star", protocol=protocol, parameters={"guidance_scale": 7})


def test_latents_of_four_dimensions_are_refused_with_the_shape_that_is_wanted(server):
    latents = grpcclient.InferInput("latents", [1, 16, 8, 8], "FP32")
    latents.set_data_from_numpy(np.zeros((1, 16, 8, 8), np.float32))
    with (
        grpcclient.InferenceServerClient(server.grpc_url) as client,
        pytest.raises(InferenceServerException, match=r"\[-1,16,1,-1,-1\]"),
    ):
        client.infer("vae_decoder", [latents])


def test_bad_requests_harm_no_other_row_that_runs_with_them(server, at_once):
    good = {"height": 64, "width": 64, "num_inference_steps": 8, "seed": 1}
    alone = ask(server, "a star", outputs=("latents",), **good)["latents"]

    def one(position: int) -> object:
        values = good | ({"height": 65} if position % 2 else {})
        prompt = "a star" if position % 4 else "star " * 2000 if position % 8 else "a star"
        try:
            return ask(server, prompt, outputs=("latents",), **values)["latents"]
        except InferenceServerException as error:
            return error

    answers = at_once(one, range(24))
    for position, answer in enumerate(answers):
        is_bad = position % 2 == 1 or position % 8 == 4
        assert isinstance(answer, InferenceServerException) == is_bad
        if not is_bad:
            assert np.abs(answer - alone).max() < 1e-4
