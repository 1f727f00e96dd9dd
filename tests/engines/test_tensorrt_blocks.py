"""The TensorRT runtime's own part, on the CPU: a stand-in for the library computes with PyTorch what lies at the
addresses that it is handed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from build.engines import block_weights
from qwen_image.dit.blocks import BlockInputs, TorchBlocks
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.precision import Precision
from qwen_image.dit.tensorrt_blocks import TensorRtBlocks
from qwen_image.engines.manifest import Manifest
from qwen_image.engines.profiles import named, to_json
from qwen_image.errors import EngineError, InvalidRequest
from tests.engines.fake_library import Engine, Stream, install

CPU = torch.device("cpu")
WEIGHTS = DummyWeights({"num_layers": 3, "num_attention_heads": 2, "attention_head_dim": 32})
PROFILES = named(["512", "1024"])
MANIFEST = Manifest(
    component="block",
    library="tensorrt",
    library_version="0",
    compute_capabilities=["0.0"],
    precision="fp32",
    profiles=[to_json(each) for each in PROFILES],
    weights=block_weights(WEIGHTS.dimensions, Precision.FP32),
    config_fingerprint="",
    weights_fingerprint=None,
    engine="block.plan",
    engine_bytes=1,
    engine_sha256="",
    onnx_sha256="",
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "block.plan"
    path.write_bytes(b"a plan")
    return path


@pytest.fixture
def library() -> Engine:
    return Engine(WEIGHTS.dimensions, PROFILES)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch, library: Engine) -> Stream:
    return install(monkeypatch, library)


@pytest.fixture
def blocks(current: Stream, plan: Path) -> TensorRtBlocks:
    return TensorRtBlocks(MANIFEST, plan, WEIGHTS, CPU)


def inputs(rows: int, image_tokens: int, text_tokens: int, padded: bool) -> BlockInputs:
    generator = torch.Generator().manual_seed(image_tokens)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    mask = torch.ones(rows, text_tokens, dtype=torch.bool)
    mask[-1, text_tokens // 2 :] = False
    return BlockInputs(
        noise(rows, image_tokens, 64),
        noise(rows, text_tokens, 64),
        mask if padded else None,
        noise(rows, 64),
        noise(2, image_tokens, 16),
        noise(2, text_tokens, 16),
    )


CALLS = [
    ((2, 16, 9, True), 0),
    ((5, 64, 30, False), 0),
    ((2, 2048, 5, True), 1),
    ((1, 16, 1, False), 0),
    ((2, 1025, 40, True), 1),
    ((2, 16, 9, True), 0),  # the first again
]


@torch.inference_mode()
def test_calls_of_all_shapes_one_after_the_other_give_what_pytorch_gives(blocks, library):
    reference = TorchBlocks(WEIGHTS)
    for shape, profile in CALLS:
        given = inputs(*shape)
        assert (blocks.run(given) - reference.run(given)).abs().max() < 1e-5, shape
        assert library.contexts[profile].shapes["image"] == (*shape[:2], 64)
    assert [context.profile for context in library.contexts] == [0, 1]


def test_inputs_and_outputs_keep_their_addresses_and_results_do_not_share_them(blocks, library):
    context = library.contexts[0]
    first = blocks.run(inputs(2, 16, 9, True))
    kept, before = first.clone(), {name: context.addresses[name] for name in context.shapes}
    second = blocks.run(inputs(3, 64, 30, True))
    assert {name: context.addresses[name] for name in before} == before
    assert torch.equal(first, kept)
    assert second.data_ptr() not in context.addresses.values()


def test_its_stream_waits_for_pytorchs_and_is_waited_for(blocks, current):
    blocks.run(inputs(2, 16, 9, True))
    (own,) = current.waited_for
    assert own is not current
    assert own.waited_for == [current]


def test_the_library_is_asked_for_our_memory_and_to_compile_before_it_runs(blocks, library):
    assert [context.config.dynamic_shapes_kernel_specialization_strategy for context in library.contexts] == [1, 1]


def test_a_shape_that_the_library_refuses_is_an_error_with_tensor_and_shape(blocks, library):
    library.refused.add("text_mask")
    with pytest.raises(EngineError, match=r"^tensorrt refused text_mask of shape \(3, 9\): its reason is on standard"):
        blocks.run(inputs(3, 16, 9, True))


def test_a_shape_that_no_profile_holds_is_the_callers_error(blocks):
    with pytest.raises(InvalidRequest, match=r"^2 rows of 4097 image tokens and 5 text tokens fit no engine profile"):
        blocks.run(inputs(2, 4097, 5, False))


def test_an_engine_of_other_tensors_is_refused_before_the_weights_are_read(current, library, plan):
    library.other_dtypes["temb"] = "BF16"
    library.names[library.names.index("text_out")] = "words_out"
    differing = r"temb is BF16, wanted float32; text_out is None, wanted float32; words_out is FLOAT, wanted None"
    with pytest.raises(EngineError, match=rf"has 2 profiles, its manifest 2; tensors that differ: {differing}: build"):
        TensorRtBlocks(MANIFEST, plan, Unreadable(WEIGHTS.config), CPU)


def test_an_engine_of_other_profiles_is_refused(current, library, plan):
    fewer = replace(MANIFEST, profiles=MANIFEST.profiles[:1])
    with pytest.raises(EngineError, match=r"has 2 profiles, its manifest 1; tensors that differ: none: build it again"):
        TensorRtBlocks(fewer, plan, WEIGHTS, CPU)


def test_a_plan_that_the_library_does_not_load_is_an_error(current, plan):
    plan.write_bytes(b"")
    with pytest.raises(EngineError, match=r"^tensorrt can't load .*block.plan: its reason is on standard error"):
        TensorRtBlocks(MANIFEST, plan, WEIGHTS, CPU)


class Unreadable(DummyWeights):
    """Weights of the same dimensions that can't be read."""

    def block(self, *arguments: object) -> dict[str, torch.Tensor]:
        raise AssertionError("weights were read")
