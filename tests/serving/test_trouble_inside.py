"""A server with broken weights and a model unloaded: callers get an error that says so, and never a black image."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
import tritonclient.grpc as grpcclient
from safetensors.torch import load_file, save_file
from tritonclient.utils import InferenceServerException

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image.text.tokenizer import PromptTokenizer
from tests.gateway.running import Gateway, gateway_over
from tests.serving.raw import ask, metrics, settled, stream

SMALL = {"height": 64, "width": 64, "num_inference_steps": 3, "seed": 1}
NOT_FINITE = "qwen_image_not_finite_images_total"


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint, tmp_path_factory) -> Path:
    return shutil.copytree(tiny_checkpoint, tmp_path_factory.mktemp("broken") / "checkpoint")


@pytest.fixture(scope="module")
def server(slow, checkpoint, tmp_path_factory) -> Iterator[TritonServer]:
    """Its VAE decodes to NaN, its text encoder knows no "@"; models may be unloaded and loaded again."""
    make_nan(checkpoint / "vae", "decoder.conv_out.bias")
    (at_sign,) = PromptTokenizer.load(open_checkpoint(checkpoint)).tokenizer("@").input_ids
    make_nan(checkpoint / "text_encoder", "model.embed_tokens.weight", at_sign)
    folder = tmp_path_factory.mktemp("broken_server")
    repository = render_repository(
        open_checkpoint(checkpoint), folder / "repository", settings=Settings(watchdog="off")
    )
    options = ("--model-control-mode=explicit", "--load-model=*")
    log = folder / "tritonserver.log"
    with TritonServer(
        repository, Ports.free(), log, start_timeout_s=300, extra_arguments=options, opens_admin_apis=True
    ) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory) -> Iterator[Gateway]:
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("gateway_over_broken")) as running:
        yield running


def make_nan(folder: Path, name: str, row: int = 0) -> None:
    (path,) = folder.glob("*.safetensors")
    tensors = load_file(path)
    tensors[name][row] = torch.nan
    save_file(tensors, path, metadata={"format": "pt"})


def failure(server, **values) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        ask(server, "a star", **(SMALL | values))
    return caught.value


def paint(gateway: Gateway) -> httpx.Response:
    body = {"prompt": "a star", "size": "64x64", "num_inference_steps": 2}
    return httpx.post(f"{gateway.url}/v1/images/generations", json=body, timeout=60)


def test_pixels_that_are_not_finite_are_an_error_and_no_black_image(server, gateway):
    error = failure(server)
    assert "vae_decoder computed pixels of row 0 that are not finite" in error.message()
    assert error.status() == "StatusCode.INTERNAL"
    with pytest.raises(InferenceServerException, match=r"pixels of row 0 that are not finite .* \[INTERNAL\]"):
        list(stream(server, "a star", **SMALL))
    assert ask(server, "a star", outputs=("latents",), **SMALL)["latents"].shape == (1, 16, 1, 8, 8)
    assert metrics(server)[f'{NOT_FINITE}{{model="vae_decoder"}}'] == 2
    answer = paint(gateway)
    assert answer.status_code == 502
    assert "vae_decoder computed pixels" in answer.json()["error"]["message"]


def test_prompt_states_that_are_not_finite_harm_no_prompt_that_is_encoded_with_them(server, at_once):
    def latents(prompt: str) -> object:
        try:
            return ask(server, prompt, outputs=("latents",), **SMALL)["latents"].shape
        except InferenceServerException as error:
            return error.message()

    answers = at_once(latents, ["a star", "an @ sign"] * 4)
    assert answers[::2] == [(1, 16, 1, 8, 8)] * 4
    assert all("text_encoder computed states of prompt in row 0 that are not finite" in each for each in answers[1::2])


def test_while_a_model_is_unloaded_the_server_is_unavailable_and_the_gateway_not_ready(server, gateway):
    assert httpx.get(f"{gateway.url}/health/ready").status_code == 200
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        client.unload_model("dit")
    error = failure(server)
    assert error.message().endswith("the model dit is not ready; send the request again later [UNAVAILABLE]")
    assert error.status() == "StatusCode.UNAVAILABLE"
    assert failure(server, protocol="http").status() == "503"
    not_ready, refused = httpx.get(f"{gateway.url}/health/ready"), paint(gateway)
    assert [answer.status_code for answer in (not_ready, refused)] == [503, 503]
    assert "of its models dit can't be used now" in not_ready.json()["error"]["message"]
    assert "the model dit is not ready" in refused.json()["error"]["message"]


def test_latents_that_are_not_finite_are_an_error_after_their_first_step_which_is_made_once(server, checkpoint):
    make_nan(checkpoint / "transformer", "proj_out.bias")
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        client.load_model("dit")
    steps = settled(server, "dit").inference_count
    error = failure(server, outputs=("latents",))
    assert "dit computed latents after step 1 of 3 that are not finite" in error.message()
    assert error.status() == "StatusCode.INTERNAL"
    assert settled(server, "dit").inference_count == steps + 1
    assert metrics(server)[f'{NOT_FINITE}{{model="sampler"}}'] == 1
