"""The models behind the ensembles, called past them: they take nothing that the validator did not let through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.servers import unlimited_grant
from tests.serving.raw import ask, call_inside, columns, inputs_for

SMALL = {"height": 64, "width": 64, "num_inference_steps": 2, "seed": 1}


def refusal(server: Any, model: str, tensors: dict[str, np.ndarray]) -> str:
    with pytest.raises(InferenceServerException) as caught:
        call_inside(server, model, tensors)
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT", caught.value
    return str(caught.value.message())


GUIDANCE = {"true_cfg_scale": 1, "cfg_start": 0, "cfg_end": 1}


def granted(server: Any, **values: Any) -> np.ndarray:
    """The grant of one row, as the validator gives it to whoever asks."""
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        result = client.infer("validator", inputs_for(grpcclient, columns("a star", **values)))
    return result.as_numpy("grant")


def for_sampler(dim: int, text_tokens: int = 3, **values: Any) -> dict[str, np.ndarray]:
    given = SMALL | values
    scalars = {name: np.array([[value]], np.int64 if name == "seed" else np.int32) for name, value in given.items()}
    states, mask = np.zeros((1, text_tokens, dim), np.float32), np.ones((1, text_tokens), bool)
    texts = {"prompt_embeds": states, "negative_prompt_embeds": states}
    masks = {"prompt_embeds_mask": mask, "negative_prompt_embeds_mask": mask}
    guidance = {name: np.array([[value]], np.float32) for name, value in GUIDANCE.items()}
    return {**texts, **masks, **scalars, **guidance}


def for_dit(dim: int) -> dict[str, np.ndarray]:
    return {
        "image_id": np.array([[b"\xff"]], np.object_),
        "seed": np.array([[-1]], np.int64),
        "grid": np.array([[0, 0]], np.int32),
        "sigmas": np.zeros((1, 0), np.float32),
        "true_cfg_scale": np.array([[1]], np.float32),
        "prompt_embeds": np.zeros((1, 3, dim), np.float32),
        "negative_prompt_embeds": np.zeros((1, 3, dim), np.float32),
    }


@pytest.fixture(scope="module")
def dim(server) -> int:
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        metadata = client.get_model_metadata("sampler")
    return int(next(each for each in metadata.inputs if each.name == "prompt_embeds").shape[-1])


@pytest.fixture
def requests(dim) -> dict[str, dict[str, np.ndarray]]:
    """One that Triton itself passes on, for each model."""
    return {
        "text_encoder": {"prompt": np.array([[b"\xff"]], np.object_)},
        "sampler": for_sampler(dim),
        "dit": for_dit(dim),
        "vae_encoder": {"image": np.zeros((1, 7, 9, 3), np.uint8)},
        "vae_decoder": {"latents": np.zeros((1, 16, 1, 3, 3), np.float32)},
    }


@pytest.mark.parametrize("model", ["text_encoder", "sampler", "dit", "vae_encoder", "vae_decoder"])
def test_a_request_that_no_model_let_through_is_told_which_models_are_public(server, requests, model):
    for grant in (None, b"", b"x" * 32, b"x" * 72):
        tensors = requests[model] | ({} if grant is None else {"grant": np.array([[grant]], np.object_)})
        assert "send yours to qwen_image or qwen_image_stream" in refusal(server, model, tensors)


@pytest.mark.parametrize(
    "beyond",
    [
        {"num_inference_steps": 2_000_000_000},
        {"num_inference_steps": 0},
        {"height": 0, "width": 0},
        {"height": -64},
        {"first_step": 1},
        {"text_tokens": 1100},
    ],
    ids=str,
)
def test_the_sampler_makes_no_more_than_the_validator_granted(server, dim, beyond):
    tensors = for_sampler(dim, **beyond) | {"grant": granted(server, **SMALL)}
    assert "not the one that the validator granted" in refusal(server, "sampler", tensors)


def test_what_was_granted_is_made_and_nothing_else_by_any_model(server, requests):
    grant = {"grant": granted(server, **SMALL)}
    assert call_inside(server, "sampler", requests["sampler"] | grant).as_numpy("latents").shape == (1, 16, 1, 8, 8)
    latents = np.zeros((1, 16, 1, 16, 8), np.float32)
    assert "64x64 were granted" in refusal(server, "vae_decoder", {"latents": latents} | grant)
    for model in ("dit", "vae_encoder"):
        assert "send yours to" in refusal(server, model, requests[model] | grant)
    assert ask(server, "a star", **SMALL)["image"].shape == (1, 64, 64, 3)


def test_text_that_is_no_utf8_is_named_also_where_the_grant_is_good(server, requests):
    grant = {"grant": np.array([[unlimited_grant(server)]], np.object_)}
    assert "prompt of row 0 is not valid UTF-8" in refusal(server, "text_encoder", requests["text_encoder"] | grant)


def test_a_request_id_is_one_short_line_of_the_log_whatever_is_in_it(server):
    ids = ("one\nE1128 a line that was never logged\x1b[2J", "long-id-" * 20_000)
    for request_id in ids:
        ask(server, "a star", request_id=request_id, **SMALL)
        with pytest.raises(InferenceServerException):
            ask(server, "a star", request_id=request_id, height=65)
    lines = server.log_path.read_bytes().decode().split("\n")
    ours = [line for line in lines if "a line that was never logged" in line]
    assert len(ours) >= 2
    assert all(r"[request one\nE1128 a line that was never logged\x1b[2J]" in line for line in ours)
    cut = [line for line in lines if "long-id-" in line]
    assert len(cut) >= 2
    assert max(map(len, cut)) < 600
