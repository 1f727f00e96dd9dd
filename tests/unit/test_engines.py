"""Engines and their manifests: built once, recognised, and refused when they are for something else."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from build import engines as build
from build.engines import Target, build_engine, build_engines, find_manifest
from build.export import export, onnx_path
from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.engines.library import library_version, load_library
from qwen_image.engines.manifest import read_manifest
from qwen_image.engines.profiles import named
from qwen_image.errors import EngineError, InvalidRequest

TARGET = Target(library="onnxruntime", precision=Precision.FP32, profiles=named(["512", "1024"]))


@pytest.fixture(scope="module")
def onnx(tiny_checkpoint, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    export(open_checkpoint(tiny_checkpoint), folder, Precision.FP32, ["block"])
    return folder


@pytest.fixture
def manifest(checkpoint, onnx, tmp_path) -> Path:
    """Of a block engine built into a folder of its own."""
    (path,) = build_engines(checkpoint, onnx, tmp_path / "engines", TARGET, ["block"])
    return path


def load(checkpoint, manifest):
    return load_transformer(checkpoint, engine="onnxruntime", manifest=manifest)


def test_the_names_say_library_precision_and_profiles(manifest):
    version = library_version("onnxruntime")
    assert manifest.name == f"block.onnxruntime-{version}.fp32.512-1024.json"
    assert read_manifest(manifest).engine == f"block.onnxruntime-{version}.fp32.512-1024.onnx"


def test_a_manifest_says_what_an_engine_was_made_from(checkpoint, onnx, manifest):
    found = read_manifest(manifest)
    assert found.config_fingerprint == config_fingerprint(checkpoint.folder / "transformer")
    assert found.weights_fingerprint is None
    assert found.block_profiles == TARGET.profiles
    assert found.weights["attn.to_q.weight"] == ["float32", [64, 64]]
    assert found.engine_bytes == manifest.with_name(found.engine).stat().st_size
    assert len(found.weights) == 32


def test_an_engine_that_is_there_is_not_built_again(checkpoint, onnx, manifest, capsys):
    engine = manifest.with_name(read_manifest(manifest).engine)
    before = (engine.stat().st_mtime_ns, manifest.stat().st_mtime_ns)
    assert build_engines(checkpoint, onnx, manifest.parent, TARGET, ["block"]) == [manifest]
    assert (engine.stat().st_mtime_ns, manifest.stat().st_mtime_ns) == before
    assert "is there" in capsys.readouterr().out


def test_an_engine_that_is_damaged_or_from_another_graph_is_built_again(checkpoint, onnx, manifest, capsys):
    engine = manifest.with_name(read_manifest(manifest).engine)
    whole = engine.read_bytes()
    engine.write_bytes(whole[:-1])
    build_engines(checkpoint, onnx, manifest.parent, TARGET, ["block"])
    assert engine.read_bytes() == whole
    altered = json.loads(manifest.read_text()) | {"onnx_sha256": "of another graph"}
    manifest.write_text(json.dumps(altered))
    build_engines(checkpoint, onnx, manifest.parent, TARGET, ["block"])
    assert capsys.readouterr().out.count("block: building") == 2
    assert read_manifest(manifest).onnx_sha256 != "of another graph"


def test_a_build_that_fails_leaves_nothing_behind(checkpoint, onnx, tmp_path):
    broken = tmp_path / "onnx" / "fp32" / "block.onnx"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no graph")
    target = Target("tensorrt_rtx", Precision.FP32, named(["512"]), "8.9")
    with pytest.raises(EngineError, match=r"^tensorrt_rtx does not take .*block.onnx: "):
        build_engine(checkpoint, "block", broken, tmp_path / "engines", target)
    assert not (tmp_path / "engines").exists() or not list((tmp_path / "engines").iterdir())


def test_what_was_not_exported_is_said(checkpoint, tmp_path):
    with pytest.raises(EngineError, match=r"block.onnx is missing: python build/export.py writes it"):
        build_engine(checkpoint, "block", tmp_path / "block.onnx", tmp_path, TARGET)


def test_a_whole_transformer_runs_on_it(checkpoint, manifest, engine):
    compiled = load(checkpoint, manifest)
    assert [compiled.max_rows(tokens) for tokens in (1024, 4096, 4097)] == [32, 8, 0]
    mask = torch.tensor([[True] * 9, [True] * 4 + [False] * 5])
    batch = Batch(
        torch.randn(2, 16, 64), torch.tensor([0.9, 0.3]), torch.randn(2, 9, 64) * mask[..., None], mask, (2, 8)
    )
    assert (compiled.velocity(batch) - engine.velocity(batch)).abs().max() < 1e-5
    with pytest.raises(InvalidRequest, match=r"2 rows of 15 image tokens and 9 text tokens fit no engine profile"):
        compiled.velocity(replace(batch, tokens=batch.tokens[:, :15], grid=(3, 5)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"library": "tensorrt"}, r"is for the library tensorrt, wanted is onnxruntime"),
        ({"library_version": "1.0"}, r"was built by onnxruntime 1.0, wanted is"),
        ({"precision": "bf16"}, r"computes in bf16, wanted is fp32"),
        ({"config_fingerprint": "abc"}, r"was made for the configuration abc, wanted is"),
        ({"weights_fingerprint": "abc"}, r"holds the weights abc, wanted is None"),
        ({"engine": "gone.onnx"}, r"gone.onnx, which .* names, is missing"),
        ({"engine_sha256": "abc"}, r"is not the file that .* describes"),
        ({"unheard_of": 1}, r"written by another version of this project \(unheard_of\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_engine_for_something_else_is_refused_and_the_message_says_what_to_do(checkpoint, manifest, change, message):
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(EngineError, match=rf"{message}.*: build it again: python build/engines.py$"):
        load(checkpoint, manifest)


def test_an_engine_of_another_architecture_is_refused(manifest, tmp_path):
    other = open_checkpoint(write_tiny_checkpoint(tmp_path / "wide", joint_attention_dim=128))
    with pytest.raises(EngineError, match=r"was made for the configuration"):
        load(other, manifest)


def test_other_weights_of_the_same_architecture_need_no_other_engine(tmp_path, onnx, manifest):
    other = open_checkpoint(write_tiny_checkpoint(tmp_path / "other", seed=1))
    assert load(other, manifest).max_rows(4096) == 8
    assert build_engines(other, onnx, manifest.parent, TARGET, ["block"]) == [manifest]


def test_weights_of_another_shape_are_named(checkpoint, manifest):
    contents = json.loads(manifest.read_text())
    contents["weights"]["attn.to_q.weight"] = ["float32", [64, 65]]
    manifest.write_text(json.dumps(contents))
    message = r"don't fit the engine: attn.to_q.weight is \['float32', \[64, 64\]\], wanted \['float32', \[64, 65\]\]$"
    with pytest.raises(EngineError, match=message):
        load(checkpoint, manifest)


def test_a_manifest_that_is_missing_is_an_error(checkpoint, tmp_path):
    with pytest.raises(EngineError, match=r"nowhere.json is missing: build it again"):
        load(checkpoint, tmp_path / "nowhere.json")


def test_one_engine_is_found_by_what_it_is_for(manifest):
    folder = manifest.parent
    assert find_manifest(folder, "block", "onnxruntime", Precision.FP32) == manifest
    with pytest.raises(EngineError, match=r"one fp8 engine of the block for tensorrt, and holds none"):
        find_manifest(folder, "block", "tensorrt", Precision.FP8)
    other = shutil.copy(manifest, folder / "block.onnxruntime-0.1.fp32.512.json")
    with pytest.raises(EngineError, match=rf"and holds {other.name}, {manifest.name}: "):
        find_manifest(folder, "block", "onnxruntime", Precision.FP32)


def test_onnx_runtime_takes_no_graph_in_bfloat16(checkpoint, onnx, tmp_path):
    target = Target("onnxruntime", Precision.BF16, named(["512"]))
    export(checkpoint, tmp_path, Precision.BF16, ["block"])
    source = onnx_path(tmp_path, "block", Precision.BF16)
    (tmp_path / "engines").mkdir()
    manifest = build_engine(checkpoint, "block", source, tmp_path / "engines", target)
    with pytest.raises(EngineError, match=r"ONNX Runtime runs the blocks in fp32 on a CPU; .* computes in bf16"):
        load_transformer(checkpoint, engine="onnxruntime", manifest=manifest, precision=Precision.BF16)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_message_says_what_runs(checkpoint, manifest):
    with pytest.raises(
        EngineError, match=r"engine=tensorrt_rtx runs on a GPU, and PyTorch finds none here; engine=torch"
    ):
        load_transformer(checkpoint, engine="tensorrt_rtx", manifest=manifest)
    with pytest.raises(EngineError, match=r"^no GPU here to build for; TensorRT-RTX builds without one: .*8\.9"):
        build_engine(checkpoint, "block", manifest, manifest.parent, Target("tensorrt_rtx"))


def test_an_unknown_engine_or_one_without_a_manifest_is_an_error(checkpoint):
    for arguments in ({"engine": "openvino", "manifest": Path("x")}, {"engine": "tensorrt"}):
        with pytest.raises(EngineError, match=r"must be one of torch, onnxruntime, tensorrt, tensorrt_rtx"):
            load_transformer(checkpoint, **arguments)


def test_a_library_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(EngineError, match=r"^tensorrt can't be loaded .*: it comes with NVIDIA's Triton images"):
        load_library("tensorrt")
    with pytest.raises(EngineError, match=r"^library='tensorflow' is none of tensorrt, tensorrt_rtx$"):
        load_library("tensorflow")


def test_a_fingerprint_sees_every_tensor_and_no_note_of_a_tool(checkpoint, tmp_path):
    component = Path(shutil.copytree(checkpoint.folder / "transformer", tmp_path / "transformer"))
    before = (config_fingerprint(component), weights_fingerprint(component))
    config = json.loads((component / "config.json").read_text())
    (component / "config.json").write_text(json.dumps(config | {"_name_or_path": "elsewhere"}))
    assert (config_fingerprint(component), weights_fingerprint(component)) == before
    (component / "config.json").write_text(json.dumps(config | {"num_layers": 3}))
    assert config_fingerprint(component) != before[0]
    (file,) = component.glob("*.safetensors")
    tensors = load_file(file)
    for name in ("proj_out.bias", "transformer_blocks.1.attn.to_q.weight"):
        save_file({**tensors, name: tensors[name] + 1}, file)
        assert weights_fingerprint(component) != before[1], name


def test_the_command_line_builds_what_it_is_told(checkpoint, onnx, tmp_path, monkeypatch, capsys):
    options = ["--checkpoint", str(checkpoint.folder), "--onnx", str(onnx), "--output", str(tmp_path / "engines")]
    options += ["--library", "onnxruntime", "--precision", "fp32", "--components", "block", "--profiles", "512"]
    monkeypatch.setattr("sys.argv", ["engines.py", *options])
    build.main()
    manifest = find_manifest(tmp_path / "engines", "block", "onnxruntime", Precision.FP32)
    assert asdict(read_manifest(manifest))["profiles"][0]["name"] == "512"
    monkeypatch.setattr("sys.argv", ["engines.py", *options[:-2], "--profiles", "512", "--components", "vae_decoder"])
    with pytest.raises(SystemExit, match=r"^error: .*vae_decoder.onnx is missing"):
        build.main()
