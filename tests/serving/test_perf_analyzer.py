"""NVIDIA's perf_analyzer drives the ensemble with the input file that we ship."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.utils

from scripts.bench_perf_analyzer import PROMPTS, measure
from tests.serving.raw import statistics

STEPS_OF_THE_ENSEMBLE = ("validator", "text_encoder", "sampler", "vae_decoder")
ROWS = json.loads(PROMPTS.read_text(encoding="utf-8"))["data"]


@pytest.mark.parametrize("protocol", ["HTTP", "gRPC"])
def test_perf_analyzer_measures_every_step_of_the_ensemble_and_no_request_fails(server, protocol):
    before = statistics(server, "qwen_image").inference_stats
    url = server.http_url if protocol == "HTTP" else server.grpc_url
    load = measure(url, protocol, concurrency=2, requests=8)
    after = statistics(server, "qwen_image").inference_stats
    assert load.requests == 8
    assert after.success.count - before.success.count == 8
    assert after.fail.count == before.fail.count
    assert load.images_per_second > 0
    composing = load.report.partition("Composing models:")[2]
    for step in STEPS_OF_THE_ENSEMBLE:
        figures = composing.partition(f"{step}, version: 1")[2].partition("version:")[0]
        assert "queue" in figures, step
        assert "compute infer" in figures, step


def test_shipped_prompts_have_several_lengths():
    lengths = {len(row["prompt"]["content"][0]) for row in ROWS}
    assert len(lengths) >= 4
    assert max(lengths) > 10 * min(lengths)


def test_shipped_inputs_are_the_models_own(server):
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        inputs = {each.name: each for each in client.get_model_metadata("qwen_image").inputs}
    for row in ROWS:
        assert row.keys() <= inputs.keys()
        assert "prompt" in row
        for name, tensor in row.items():
            assert tensor["shape"] == list(inputs[name].shape)[1:], name
            assert fits(tensor["content"], inputs[name].datatype), name


def fits(content: list[object], datatype: str) -> bool:
    if datatype == "BYTES":
        return all(isinstance(value, str) for value in content)
    values, dtype = np.array(content), np.dtype(tritonclient.utils.triton_to_np_dtype(datatype))
    return values.dtype.kind == dtype.kind and np.array_equal(values.astype(dtype), values)
