"""The block's ONNX file, the very one that is compiled, run by ONNX Runtime and compared with diffusers' block."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest
import torch

from build.check_blocks import block_error, check_blocks, example, open_graph, reference
from build.export_block import export_block
from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.blocks import block_tensors, empty_block
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.fp8 import LAYERS
from qwen_image.dit.onnx_blocks import run_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights, Dimensions
from qwen_image.errors import EngineError

TINY = {"num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 32}
FULL = {"num_layers": 60, "num_attention_heads": 24, "attention_head_dim": 128}  # the 20 B transformer's
SHAPES = [
    {"rows": 1, "image_tokens": 16, "text_lengths": (1,)},
    {"rows": 2, "image_tokens": 40, "text_lengths": (5, 5)},
    {"rows": 3, "image_tokens": 77, "text_lengths": (30, 1, 12)},
]


@pytest.fixture(scope="module")
def graph(slow, tmp_path_factory):
    """The exported file of a configuration in a precision, and ONNX Runtime's session of it."""
    folder, made = tmp_path_factory.mktemp("onnx"), {}

    def make(config, precision):
        path = folder / f"{config['num_attention_heads']}.{precision}.onnx"
        if path not in made:
            export_block(Dimensions.from_config(config), path, precision)
            made[path] = open_graph(path, precision)
        return path, made[path]

    return make


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return ((left.float() - right.float()).norm() / right.float().norm()).item()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("block", [0, 1])
def test_one_graph_gives_what_diffusers_gives_for_every_blocks_weights(graph, shape, block):
    weights = DummyWeights(TINY)
    _, session = graph(TINY, Precision.FP32)
    inputs = example(weights.dimensions, 0, Precision.FP32, **shape)
    found = run_block(session, inputs, block_tensors(weights, block, Precision.FP32))
    expected = reference(weights, block, torch.float32, inputs)
    assert all((found[name] - expected[name]).abs().max() < 1e-4 for name in ("image", "text"))


def test_other_weights_give_something_else(graph):
    weights = DummyWeights(TINY)
    _, session = graph(TINY, Precision.FP32)
    inputs = example(weights.dimensions, 0, Precision.FP32)
    found = run_block(session, inputs, block_tensors(weights, 1, Precision.FP32))
    assert apart(found["image"], reference(weights, 0, torch.float32, inputs)["image"]) > 1e-3


def test_padded_text_changes_nothing_but_its_own_rows(graph):
    weights = DummyWeights(TINY)
    _, session = graph(TINY, Precision.FP32)
    tensors = block_tensors(weights, 0, Precision.FP32)
    inputs = example(weights.dimensions, 0, Precision.FP32)
    disturbed = inputs | {"text": torch.where(inputs["text_mask"][..., None], inputs["text"], torch.tensor(9.0))}
    plain, other = run_block(session, inputs, tensors), run_block(session, disturbed, tensors)
    assert torch.equal(plain["image"], other["image"])
    assert torch.equal(plain["text"][inputs["text_mask"]], other["text"][inputs["text_mask"]])
    assert not torch.equal(plain["text"], other["text"])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bfloat16_is_as_near_to_float32_as_diffusers_in_bfloat16(graph, shape):
    weights = DummyWeights(TINY)
    _, session = graph(TINY, Precision.BF16)
    inputs = example(weights.dimensions, 0, Precision.BF16, **shape)
    found = run_block(session, inputs, block_tensors(weights, 0, Precision.BF16))
    exact = reference(weights, 0, torch.float32, inputs)
    narrow = reference(weights, 0, torch.bfloat16, inputs)
    for name in ("image", "text"):
        assert apart(found[name], exact[name]) < 1.5 * apart(narrow[name], exact[name])


def test_fp8_loses_little_and_is_what_pytorch_computes(graph):
    weights = DummyWeights(TINY)
    _, session = graph(TINY, Precision.FP8)
    tensors = block_tensors(weights, 0, Precision.FP8)
    inputs = example(weights.dimensions, 0, Precision.FP8)
    found = run_block(session, inputs, tensors)
    block = empty_block(weights.dimensions, Precision.FP8)
    block.load_state_dict(tensors, assign=True)
    with torch.inference_mode():
        image, text = block(**inputs)
    assert max(apart(found["image"], image), apart(found["text"], text)) < 5e-3
    exact = reference(weights, 0, torch.float32, inputs)
    assert max(apart(found[name], exact[name]) for name in exact) < 2e-2


def test_fp8_holds_the_large_layers_and_leaves_the_sensitive_ones(graph):
    path, _ = graph(TINY, Precision.FP8)
    types = {each.name: each.type.tensor_type.elem_type for each in onnx.load(path).graph.input}
    fp8 = {name.removesuffix(".weight") for name, kind in types.items() if kind == onnx.TensorProto.FLOAT8E4M3FN}
    assert fp8 == set(LAYERS)
    kept = {name.removesuffix(".weight") for name in types if name.endswith(".weight")} - fp8
    assert {"img_mod.1", "txt_mod.1"} <= kept


@pytest.mark.parametrize("precision", list(Precision))
def test_a_file_is_small_strict_and_names_operators_that_compilers_know(graph, precision):
    path, _ = graph(FULL, precision)
    assert path.stat().st_size < 2**20
    assert not list(path.parent.glob("*.data"))
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [each.version for each in model.opset_import if each.domain == ""] == [23]
    used = [node.op_type for node in model.graph.node]
    assert (used.count("Attention"), used.count("RMSNormalization")) == (1, 4)
    assert used.count("QuantizeLinear") == (8 if precision is Precision.FP8 else 0)


@pytest.mark.parametrize("precision", list(Precision))
def test_a_full_size_block_is_diffusers(graph, precision):
    weights = DummyWeights(FULL)
    _, session = graph(FULL, precision)
    assert block_error(session, weights, 7, precision) < {"fp32": 1e-5, "bf16": 1e-2, "fp8": 1e-1}[precision]


@pytest.fixture
def files(exported, tmp_path) -> Path:
    """A folder with the tiny checkpoint's block; what is found of it is noted beside it."""
    return Path(shutil.copytree(exported(Precision.FP32, "block"), tmp_path / "onnx"))


def test_every_block_is_checked_and_a_check_that_was_cut_off_goes_on(tiny_checkpoint, files):
    checkpoint = open_checkpoint(tiny_checkpoint)
    errors = check_blocks(checkpoint, files, Precision.FP32)
    assert len(errors) == CheckpointWeights(checkpoint).dimensions.num_layers == 2
    assert 0 < max(errors) < 1e-5
    note = files / "fp32" / "block.checked.json"
    cut_off = json.loads(note.read_text()) | {"errors": [0.125]}
    note.write_text(json.dumps(cut_off))
    assert check_blocks(checkpoint, files, Precision.FP32) == [0.125, errors[1]]
    for useless in (json.dumps(cut_off | {"weights_fingerprint": "of other weights"}), json.dumps(cut_off)[:-3]):
        note.write_text(useless)
        assert check_blocks(checkpoint, files, Precision.FP32) == errors


def test_a_graph_of_another_checkpoint_is_not_compared(tmp_path, files):
    wide = open_checkpoint(write_tiny_checkpoint(tmp_path / "wide", joint_attention_dim=128))
    with pytest.raises(EngineError, match=r"block.onnx was exported from another checkpoint"):
        check_blocks(wide, files, Precision.FP32)


def test_a_block_that_is_not_finite_is_named(tiny_checkpoint, files, monkeypatch):
    tensors = CheckpointWeights.block

    def damaged(self, index, dtype, device="cpu"):
        found = tensors(self, index, dtype, device)
        return found | {"attn.to_q.weight": found["attn.to_q.weight"] * torch.nan} if index == 1 else found

    monkeypatch.setattr(CheckpointWeights, "block", damaged)
    with pytest.raises(EngineError, match=r"^block 1 is nan from diffusers, 1e-05 is allowed in fp32"):
        check_blocks(open_checkpoint(tiny_checkpoint), files, Precision.FP32)
