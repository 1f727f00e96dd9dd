"""Weights that are not whole, not of their configuration or in another layout are named before any is loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qwen_image.checkpoint import open_checkpoint
from qwen_image.checkpoint.files import weight_files
from qwen_image.errors import CheckpointError
from qwen_image.text.encoder_files import encoder_folder
from qwen_image.vae.vae import load_vae

DIT = "transformer/diffusion_pytorch_model.safetensors"
VAE = "vae/diffusion_pytorch_model.safetensors"
TEXT = "text_encoder/model.safetensors"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 16\n"
TO_Q = "transformer_blocks.1.attn.to_q.weight"


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """The tiny checkpoint, free to be broken."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def contents(file: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes(data) and None


def tensors(file: str, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    return lambda folder: save_file(change(load_file(folder / file)), folder / file)


def config(component: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / component / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def cut_off(folder: Path) -> None:
    (folder / VAE).write_bytes((folder / VAE).read_bytes()[:-1000])


def split(folder: Path, *, twice: tuple[str, ...] = ()) -> tuple[Path, Path]:
    """The transformer's one file as two and an index. `twice` are in both."""
    whole = folder / DIT
    held = load_file(whole)
    names = sorted(held)
    parts = {whole.with_name("part-1.safetensors"): names[::2], whole.with_name("part-2.safetensors"): names[1::2]}
    for part, own in parts.items():
        save_file({name: held[name] for name in (*own, *twice)}, part)
    found = {name: part.name for part, own in parts.items() for name in own}
    Path(f"{whole}.index.json").write_text(json.dumps({"weight_map": found}))
    first, second = parts
    return first, second


def swapped_shards(folder: Path) -> None:
    first, second = split(folder)
    first.rename(other := folder / "other")
    second.rename(first)
    other.rename(second)


def index(contents: object) -> Callable[[Path], None]:
    return lambda folder: Path(f"{folder / DIT}.index.json").write_text(json.dumps(contents)) and None


def without(name: str) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda held: {each: tensor for each, tensor in held.items() if each != name}


def scaled(held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return held | {TO_Q: held[TO_Q].to(torch.float8_e4m3fn), TO_Q.replace("weight", "scale_weight"): torch.ones(1)}


def both_names(held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return held | {"model.language_model.norm.weight": torch.ones(64), "model.norm.weight": torch.ones(64)}


FAULTS = {
    "a Git-LFS pointer": (contents(DIT, POINTER), rf"{DIT} is a Git-LFS pointer of 127 bytes, .*: run `git lfs pull`"),
    "a pointer as a configuration": (contents("vae/config.json", POINTER), r"vae/config.json is a Git-LFS pointer"),
    "a pointer as a tokenizer": (contents("tokenizer/tokenizer.json", POINTER), r"tokenizer.json is a Git-LFS pointer"),
    "a file that is cut off": (cut_off, rf"{VAE} is cut off after \d+ bytes: download it again"),
    "an empty file": (contents(TEXT, b""), rf"{TEXT} is cut off after 0 bytes"),
    "a page": (contents(TEXT, b"<!doctype html>"), rf"{TEXT} is a page of HTML or XML of 15 bytes, not of safetensors"),
    "a pickle": (contents(VAE, b"PK\3\4" + b"0" * 99), rf"{VAE} is a PyTorch file of 103 bytes, not of safetensors"),
    "noise": (contents(VAE, b"\xff" * 99), rf"{VAE} is no safetensors file \(.*header too large; it has 99 bytes\)"),
    "a tensor that is missing": (
        tensors(TEXT, without("model.layers.1.mlp.down_proj.weight")),
        r"text_encoder holds other .*: without model.language_model.layers.1.mlp.down_proj.weight\. Is the checkpoint",
    ),
    "more blocks than configured": (
        config("transformer", num_layers=1),
        r"2 transformer_blocks, wanted are 1; with transformer_blocks.1.attn.* and 29 more, which nothing reads",
    ),
    "fewer blocks than configured": (
        config("transformer", num_layers=3),
        r"2 transformer_blocks, wanted are 3; without transformer_blocks.2.attn.* and 29 more",
    ),
    "a tensor of another shape": (
        tensors(VAE, lambda held: held | {"quant_conv.bias": torch.zeros(8)}),
        rf"{VAE} does not fit .*/vae/config.json: quant_conv.bias is \[8\], wanted is \[32\] \(1 differ\)",
    ),
    "weights of another width": (config("transformer", attention_head_dim=16), rf"{DIT} does not fit .* wanted is "),
    "scaled FP8": (
        tensors(DIT, scaled),
        rf"{DIT} is a scaled FP8 file .*which is not read: serve the files of the dif",
    ),
    "whole numbers": (
        tensors(DIT, lambda held: held | {TO_Q: held[TO_Q].to(torch.int8)}),
        rf"{DIT}: {TO_Q} is I8, which is not read: serve the files of the diffusers layout in BF16, F16 or F32",
    ),
    "ComfyUI's layout": (
        tensors(DIT, lambda held: {f"model.diffusion_model.{name}": each for name, each in held.items()}),
        rf"{DIT} is a file in ComfyUI's layout",
    ),
    "Wan's layout": (
        tensors(VAE, lambda held: {"decoder.middle.0.residual.0.gamma": torch.zeros(8)}),
        r"is a VAE in Wan's original layout \(it has decoder.middle.0.residual.0.gamma\)",
    ),
    "a quantised configuration": (
        config("text_encoder", quantization_config={"quant_method": "bitsandbytes"}),
        r"text_encoder/config.json: quantization_config \(bitsandbytes\) is not read",
    ),
    "a configuration without a number": (
        config("vae", dim_mult=None),
        r"vae/config.json has a value that does not fit",
    ),
    "two names for one tensor": (tensors(TEXT, both_names), rf"{TEXT} has model\.\w*\.?norm.weight twice"),
    "shards that were swapped": (swapped_shards, r"index.json says that .* is in part-\d.*, and it is in part-\d"),
    "a shard that is missing": (
        lambda folder: split(folder)[1].unlink(),
        r"part-2.safetensors, which the index beside it names, is missing",
    ),
    "a tensor in two shards": (
        lambda folder: split(folder, twice=("proj_out.bias", "proj_out.weight")) and None,
        r"proj_out.\w+ is in .*part-1.safetensors and in part-2.safetensors: remove one of the files",
    ),
    "an index without a map": (index({"weight_map": []}), r"index.json has no weight_map"),
    "an index that leads elsewhere": (index({"weight_map": {"a": "../b"}}), r"'../b' .* must be the name of a file"),
    "a variant": (
        lambda folder: (folder / VAE).rename(folder / "vae/diffusion_pytorch_model.fp16.safetensors") and None,
        r"vae has no weights: .* are read; it has diffusion_pytorch_model.fp16.safetensors. load_format=dummy needs",
    ),
    "no weights": (
        lambda folder: (folder / TEXT).unlink(),
        r"text_encoder has no weights: .* are read; it has neither",
    ),
}


@pytest.mark.parametrize(("damage", "message"), FAULTS.values(), ids=FAULTS)
def test_a_checkpoint_is_refused_for(copy, damage, message):
    open_checkpoint(copy)
    damage(copy)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(copy)


def test_stray_files_beside_the_weights_are_not_read(copy, tmp_path):
    before = {component: weight_files(copy / component) for component in ("transformer", "vae", "text_encoder")}
    for component in before:
        for name in ("model_old.safetensors", "pytorch_model.bin", "other.safetensors.index.json", "model.gguf"):
            (copy / component / name).write_bytes(POINTER)
    checkpoint = open_checkpoint(copy)
    assert {component: weight_files(copy / component) for component in before} == before
    linked = {link.name for link in encoder_folder(checkpoint, tmp_path / "cache").iterdir()}
    assert linked == {"model.safetensors", "config.json", "generation_config.json", *tokenizer_files(copy)}


def tokenizer_files(folder: Path) -> set[str]:
    return {file.name for file in (folder / "tokenizer").iterdir()}


def test_where_a_file_and_an_index_are_there_each_library_has_its_own_way(copy):
    split(copy)
    assert [path.name for path in weight_files(copy / "transformer")] == ["part-1.safetensors", "part-2.safetensors"]
    (copy / f"{TEXT}.index.json").write_text("no index")
    assert weight_files(copy / "text_encoder") == [copy / TEXT]
    open_checkpoint(copy)


def test_older_and_newer_names_of_a_text_encoders_tensors_are_taken_with_a_head_or_without(copy):
    held = load_file(copy / TEXT)
    newer = {
        name.replace("model.", "model.language_model."): each for name, each in held.items() if "visual" not in name
    }
    newer |= {f"model.{name}": each for name, each in held.items() if name.startswith("visual.")}
    newer.pop("lm_head.weight", None)
    assert newer.keys() != held.keys()
    save_file(newer, copy / TEXT)
    open_checkpoint(copy)


def test_a_vae_whose_file_changed_since_is_refused_by_the_load(copy):
    checkpoint = open_checkpoint(copy)
    tensors(VAE, without("quant_conv.bias"))(copy)
    with pytest.raises(CheckpointError, match=r"vae holds other tensors .*: without quant_conv.bias"):
        load_vae(checkpoint, torch.float32)
