"""A server whose transformer runs on a compiled engine: ONNX Runtime stands where TensorRT does on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.serving.raw import ask


@pytest.mark.parametrize(("height", "width"), [(64, 64), (96, 160), (512, 512)])
@pytest.mark.parametrize("negative_prompt", [None, "blurry, low quality, watermark, and much longer than the prompt"])
def test_a_compiled_engine_paints_what_pytorch_paints(server, compiled_server, height, width, negative_prompt):
    wanted = {"height": height, "width": width, "num_inference_steps": 3, "seed": 4}
    if negative_prompt is not None:
        wanted["negative_prompt"] = negative_prompt
    expected, found = (
        ask(each, "a red star", outputs=["latents"], **wanted)["latents"] for each in (server, compiled_server)
    )
    assert np.abs(expected - found).max() < 1e-4


def test_a_size_outside_every_profile_is_refused_at_validation_with_what_is_allowed(compiled_server):
    with pytest.raises(InferenceServerException, match=r"is 270336 pixels; at most 262144 are allowed") as caught:
        ask(compiled_server, "a star", height=512, width=528)
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
