"""Exported files: whole, noted beside them, and written again when what they were made from has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from build import export as build
from build.export import CODE, check_exported, export, onnx_path
from build.onnx_export import data_path
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.errors import EngineError

DECODER = ["vae_decoder"]


@pytest.fixture
def decoder(exported: Callable[..., Path], tmp_path: Path) -> Path:
    """In a copy that a test may damage."""
    return copied(exported(Precision.FP32, *DECODER), "vae_decoder", tmp_path)


def copied(exported: Path, component: str, folder: Path) -> Path:
    """The component's file, copied to another folder with what is beside it."""
    copy = onnx_path(folder, component, Precision.FP32)
    copy.parent.mkdir(exist_ok=True)
    for path in onnx_path(exported, component, Precision.FP32).parent.glob(f"{component}.*"):
        shutil.copy(path, copy.parent)
    return copy


def test_the_note_has_the_size_of_the_weights(decoder):
    assert json.loads(decoder.with_suffix(".json").read_text())["data_bytes"] == data_path(decoder).stat().st_size


@pytest.mark.parametrize("damage", ["no weights", "half the weights", "no graph", "no note", "a broken note"])
def test_files_that_are_not_whole_are_not_built_from(checkpoint, decoder, damage):
    graph, data, note = decoder, data_path(decoder), decoder.with_suffix(".json")
    check_exported(checkpoint, decoder)
    match damage:
        case "half the weights":
            data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
        case "a broken note":
            note.write_text("{")
        case _:
            {"no weights": data, "no graph": graph, "no note": note}[damage].unlink()
    with pytest.raises(EngineError, match=r"is missing|was exported from another checkpoint or by other code"):
        check_exported(checkpoint, decoder)


def test_files_that_are_not_whole_are_written_again_and_no_other_component(checkpoint, tmp_path, decoder, capsys):
    before = [path.read_bytes() for path in (decoder, data_path(decoder))]
    data_path(decoder).unlink()
    export(checkpoint, tmp_path, Precision.FP32, DECODER)
    assert capsys.readouterr().out.endswith("written\n")
    assert [path.read_bytes() for path in (decoder, data_path(decoder))] == before
    assert {path.name for path in decoder.parent.iterdir()} == {
        "vae_decoder.onnx",
        "vae_decoder.onnx.data",
        "vae_decoder.json",
    }
    check_exported(checkpoint, decoder)


def test_what_is_there_and_right_is_left_as_it_is(checkpoint, tmp_path, decoder, capsys):
    before = decoder.stat().st_mtime_ns
    export(checkpoint, tmp_path, Precision.FP32, DECODER)
    assert decoder.stat().st_mtime_ns == before
    assert capsys.readouterr().out.count("is there") == 1


def test_an_export_that_fails_leaves_no_note_beside_older_files(checkpoint, tmp_path, decoder):
    data_path(decoder).unlink()
    (data_path(decoder) / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        export(checkpoint, tmp_path, Precision.FP32, DECODER)
    assert not decoder.with_suffix(".json").exists()
    assert [path for path in decoder.parent.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.parametrize(
    ("file", "component"), [(file, component) for component in ("block", *DECODER) for file in CODE[component]]
)
def test_a_component_depends_on_its_own_code_and_no_other(checkpoint, tmp_path, monkeypatch, file, component):
    for path in {path for paths in CODE.values() for path in paths}:
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build.ROOT / path, tmp_path / "code" / path)
    monkeypatch.setattr(build, "ROOT", tmp_path / "code")
    note = onnx_path(tmp_path, component, Precision.FP32)
    before = {each: build._origin(checkpoint, note.with_stem(each))["code"] for each in ("block", *DECODER)}
    with (tmp_path / "code" / file).open("a") as code:
        code.write("# changed\n")
    after = {each: build._origin(checkpoint, note.with_stem(each))["code"] for each in ("block", *DECODER)}
    assert {each for each in before if before[each] != after[each]} == {each for each in before if file in CODE[each]}


def test_the_files_that_are_named_exist_and_the_note_has_the_libraries(decoder):
    assert all((build.ROOT / path).is_file() for paths in CODE.values() for path in paths)
    libraries = json.loads(decoder.with_suffix(".json").read_text())["libraries"]
    assert list(libraries) == ["torch", "diffusers", "onnxscript", "onnx-ir"]


def test_other_weights_make_other_vae_files_and_the_same_block(checkpoint, exported, tmp_path, decoder, capsys):
    copied(exported(Precision.FP32, "block"), "block", tmp_path)
    other = Path(shutil.copytree(checkpoint.folder, tmp_path / "other"))
    for component in ("vae", "transformer"):
        (file,) = (other / component).glob("*.safetensors")
        changed = bytearray(file.read_bytes())
        changed[-1] ^= 1
        file.write_bytes(changed)
    capsys.readouterr()
    export(open_checkpoint(other), tmp_path, Precision.FP32, ["block", *DECODER])
    printed = capsys.readouterr().out
    assert f"block: {onnx_path(tmp_path, 'block', Precision.FP32)} is there" in printed
    assert f"{decoder} written" in printed
