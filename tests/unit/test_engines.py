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
from build.compiled import find_manifest
from build.engines import build_engines
from build.repository import render_repository
from build.settings import Settings
from build.target import Target
from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.engines.library import library_version, load_library
from qwen_image.engines.manifest import check_fits_machine, read_manifest
from qwen_image.engines.profiles import named
from qwen_image.errors import EngineError, InvalidRequest
from qwen_image_contract import Limits

TARGET = Target(library="onnxruntime", precision=Precision.FP32, profiles=named(["512", "1024"]))


@pytest.fixture(scope="session")
def onnx(exported) -> Path:
    return exported(Precision.FP32, "block")


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
    broken = Path(shutil.copytree(onnx, tmp_path / "onnx"), "fp32", "block.onnx")
    broken.write_bytes(b"no graph")
    target = Target("tensorrt_rtx", Precision.FP32, named(["512"]), "8.9")
    with pytest.raises(EngineError, match=r"^tensorrt_rtx does not take .*block.onnx: "):
        build_engines(checkpoint, tmp_path / "onnx", tmp_path / "engines", target, ["block"])
    assert list((tmp_path / "engines").iterdir()) == []


def test_what_was_not_exported_is_said(checkpoint, tmp_path):
    with pytest.raises(EngineError, match=r"block.onnx is missing: python build/export.py writes it"):
        build_engines(checkpoint, tmp_path, tmp_path, TARGET, ["block"])


def test_what_was_exported_from_another_checkpoint_is_not_built_for_this_one(checkpoint, onnx, tmp_path):
    wide = open_checkpoint(write_tiny_checkpoint(tmp_path / "wide", joint_attention_dim=128))
    message = r"block.onnx was exported from another checkpoint or by other code: python build/export.py$"
    with pytest.raises(EngineError, match=message):
        build_engines(wide, onnx, tmp_path / "engines", TARGET, ["block"])
    assert not (tmp_path / "engines").exists()


def test_other_libraries_of_the_exporter_make_no_other_engine(checkpoint, onnx, tmp_path):
    """Files may be exported on one machine and compiled on another."""
    elsewhere = shutil.copytree(onnx, tmp_path / "onnx")
    note = elsewhere / "fp32" / "block.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"libraries": {"torch": "1.0"}}))
    assert len(build_engines(checkpoint, elsewhere, tmp_path / "engines", TARGET, ["block"])) == 1


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
        ({"component": "vae_decoder"}, r"is an engine of the vae_decoder, wanted is block"),
        ({"library": "tensorrt"}, r"is for the library tensorrt, wanted is onnxruntime"),
        ({"library_version": "1.0"}, r"was built by onnxruntime 1.0, installed is"),
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
    difference = r"attn.to_q.weight is \['float32', \[64, 64\]\], wanted \['float32', \[64, 65\]\]"
    message = (
        rf"^block 0 .* does not fit the engine: {difference}: build it again: python build/engines.py, from an ONNX"
    )
    with pytest.raises(EngineError, match=message):
        load(checkpoint, manifest)


def test_a_manifest_that_is_missing_is_an_error(checkpoint, tmp_path):
    with pytest.raises(EngineError, match=r"nowhere.json is missing: build it again"):
        load(checkpoint, tmp_path / "nowhere.json")


def test_one_engine_is_found_by_what_it_is_for(manifest):
    folder = manifest.parent
    assert find_manifest(folder, "block", "onnxruntime", "fp32") == manifest
    with pytest.raises(EngineError, match=r"one fp8 engine of the block for tensorrt, and holds none"):
        find_manifest(folder, "block", "tensorrt", "fp8")


def test_of_several_engines_the_one_of_the_installed_library_is_taken(manifest):
    older = manifest.with_name("block.onnxruntime-0.1.fp32.512-1024.json")
    older.write_text(json.dumps(json.loads(manifest.read_text()) | {"library_version": "0.1"}))
    assert find_manifest(manifest.parent, "block", "onnxruntime", "fp32") == manifest
    manifest.unlink()
    assert find_manifest(manifest.parent, "block", "onnxruntime", "fp32") == older  # for a machine that has that one


def test_engines_that_only_their_profiles_tell_apart_are_ambiguous(checkpoint, onnx, manifest):
    fewer = replace(TARGET, profiles=named(["512"]))
    (other,) = build_engines(checkpoint, onnx, manifest.parent, fewer, ["block"])
    with pytest.raises(EngineError, match=rf"and holds {manifest.name}, {other.name}: .*remove those that are not"):
        find_manifest(manifest.parent, "block", "onnxruntime", "fp32")
    settings, limits = Settings(engine="onnxruntime"), Limits(max_pixels=512 * 512)
    repository = manifest.parent / "repository"  # those that were just built are not searched for
    assert render_repository(checkpoint, repository, settings=settings, limits=limits, engines=[other]).is_dir()


def test_an_engine_for_another_gpu_is_refused(manifest):
    found = replace(read_manifest(manifest), compute_capabilities=["8.9", "12.0"])
    check_fits_machine(manifest, found, library_version=found.library_version, compute_capability="12.0")
    with pytest.raises(EngineError, match=r"for GPUs of compute capability 8\.9, 12\.0, this is 9\.0: build it again"):
        check_fits_machine(manifest, found, library_version=found.library_version, compute_capability="9.0")


@pytest.mark.parametrize(
    ("target", "components", "message"),
    [
        (replace(TARGET, precision=Precision.BF16), ["block"], r"can't take block in bf16: --components block"),
        (
            TARGET,
            ["block", "vae_decoder"],
            r"can't take block, vae_decoder in fp32: --components block --precision fp32",
        ),
        (
            Target("tensorrt_rtx", Precision.FP8, compute_capability="8.6"),
            ["block"],
            r"fp8 needs .* 8\.9 or newer.* 8\.6",
        ),
        (
            Target("tensorrt_rtx", Precision.BF16, compute_capability="7.5"),
            ["block"],
            r"bf16 needs .* 8\.0 or newer.* 7\.5",
        ),
        (
            Target("tensorrt_rtx", compute_capability="sm89"),
            ["block"],
            r"^compute_capability='sm89' must be two numbers",
        ),
    ],
    ids=["a precision", "a component", "no FP8", "no bfloat16", "no capability"],
)
def test_what_can_not_be_built_is_refused_before_anything_is_read(checkpoint, tmp_path, target, components, message):
    with pytest.raises(EngineError, match=message):
        build_engines(checkpoint, tmp_path / "nowhere", tmp_path / "engines", target, components)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "cuda"}, r"runs the blocks in fp32 on a CPU; .* computes in fp32, and the device is cuda$"),
        (
            {"precision": Precision.BF16},
            r"runs the blocks in fp32 on a CPU; .* computes in bf16, and the device is cpu$",
        ),
    ],
    ids=["a GPU", "bfloat16"],
)
def test_onnx_runtime_runs_in_float32_on_the_cpu_and_nothing_else(checkpoint, manifest, settings, message):
    contents = json.loads(manifest.read_text()) | {"precision": settings.get("precision", "fp32")}
    manifest.write_text(json.dumps(contents))
    with pytest.raises(EngineError, match=message):
        load_transformer(checkpoint, engine="onnxruntime", manifest=manifest, **settings)


def test_limits_beyond_an_engine_are_found_before_its_weights_are_read(checkpoint, manifest, tmp_path):
    folder = Path(shutil.copytree(checkpoint.folder, tmp_path / "copy"))
    without_weights = open_checkpoint(folder)
    for path in (folder / "transformer").glob("*.safetensors"):
        path.unlink()
    limits = {"image_tokens": (16, 4097), "max_text_tokens": 1024}
    with pytest.raises(EngineError, match=r"hold no 2 rows of 4097 image tokens"):
        load_transformer(without_weights, engine="onnxruntime", manifest=manifest, **limits)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_message_says_what_runs(checkpoint, manifest):
    with pytest.raises(
        EngineError, match=r"engine=tensorrt_rtx runs on a GPU, and PyTorch finds none here; engine=torch"
    ):
        load_transformer(checkpoint, engine="tensorrt_rtx", manifest=manifest)
    with pytest.raises(EngineError, match=r"^no GPU here to build for; TensorRT-RTX builds without one: .*8\.9"):
        Target("tensorrt_rtx").check(["block"])


def test_an_unknown_engine_or_one_without_a_manifest_is_an_error(checkpoint):
    for arguments in ({"engine": "openvino", "manifest": Path("x")}, {"engine": "tensorrt"}):
        with pytest.raises(EngineError, match=r"must be one of torch, onnxruntime, tensorrt, tensorrt_rtx"):
            load_transformer(checkpoint, **arguments)


def test_a_library_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(EngineError, match=r"^tensorrt can't be loaded .*: pip install tensorrt-cu13, of the version"):
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
    manifest = find_manifest(tmp_path / "engines", "block", "onnxruntime", "fp32")
    assert asdict(read_manifest(manifest))["profiles"][0]["name"] == "512"
    monkeypatch.setattr("sys.argv", ["engines.py", *options, "--onnx", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^error: .*block.onnx is missing"):
        build.main()
