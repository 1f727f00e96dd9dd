"""The VAE as a compiled model of its own, which `vae_decoder` calls row by row, as in the GPU repository.

Triton's TensorRT backend needs a GPU; in its place a model of the same name and tensors runs the exported file.
"""

from __future__ import annotations

import pytest

from tests.pictures import levels_apart
from tests.serving.raw import ask, settled, stream

PLANNED = {"prompt": ["a star", "a cat", "a dog"], "height": 96, "width": 160, "num_inference_steps": 2}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_rows_come_out_as_pytorch_decodes_them(server, compiled_server, protocol):
    wanted = {**PLANNED, "protocol": protocol, "outputs": ["image", "latents"], "seed": [1, 2, 3]}
    expected, found = ask(server, **wanted), ask(compiled_server, **wanted)
    assert found["image"].shape == (3, 96, 160, 3)
    assert levels_apart(expected["image"], found["image"]) <= 1
    assert len({row.tobytes() for row in found["image"]}) == 3


def test_every_row_is_a_call_of_one(compiled_server):
    before = settled(compiled_server, "vae_decoder_plan")
    ask(compiled_server, **PLANNED)
    after = settled(compiled_server, "vae_decoder_plan")
    assert after.inference_count - before.inference_count == 3
    assert after.execution_count - before.execution_count == 3


def test_the_plan_does_not_run_when_only_latents_are_wanted(compiled_server):
    before = settled(compiled_server, "vae_decoder_plan").inference_count
    ask(compiled_server, **PLANNED, outputs=["latents"])
    assert settled(compiled_server, "vae_decoder_plan").inference_count == before


def test_previews_come_through_it_too(compiled_server):
    responses = list(stream(compiled_server, "a star", height=64, width=64, num_inference_steps=3))
    assert [response["image"].shape for response in responses] == [(1, 64, 64, 3)] * 3
