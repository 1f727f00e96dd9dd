"""A transformer's tensors are read block by block from the files that hold them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.dit.weights import CheckpointWeights
from qwen_image.errors import CheckpointError

WHOLE = "diffusion_pytorch_model.safetensors"


@pytest.fixture
def folder(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """The transformer of a copy of the tiny checkpoint."""
    return Path(shutil.copytree(checkpoint.folder, tmp_path / "copy")) / "transformer"


def weights(folder: Path) -> CheckpointWeights:
    return CheckpointWeights(open_checkpoint(folder.parent))


def test_a_split_checkpoint_reads_as_the_whole_one(checkpoint, folder):
    tensors = load_file(folder / WHOLE)
    (folder / WHOLE).unlink()
    names = sorted(tensors)
    parts = {"part-1.safetensors": names[::2], "part-2.safetensors": names[1::2]}
    for part, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / part)
    found = {name: part for part, own in parts.items() for name in own}
    (folder / f"{WHOLE}.index.json").write_text(json.dumps({"weight_map": found}))
    assert weights(folder).files == {name: folder / part for name, part in found.items()}
    expected = CheckpointWeights(checkpoint).block(1, torch.float32)
    read = weights(folder).block(1, torch.float32)
    assert read.keys() == expected.keys()
    assert all(torch.equal(read[name], expected[name]) for name in expected)


def test_fp8_without_scales_reads_as_what_it_was_cast_from(checkpoint, folder):
    tensors = load_file(folder / WHOLE)
    save_file({name: each.to(torch.float8_e4m3fn) for name, each in tensors.items()}, folder / WHOLE)
    read = weights(folder).block(0, torch.float32)["attn.to_q.weight"]
    assert torch.equal(read, tensors["transformer_blocks.0.attn.to_q.weight"].to(torch.float8_e4m3fn).float())


def test_files_that_changed_after_the_checkpoint_was_opened_are_refused_by_the_load(folder):
    opened = weights(folder)
    save_file({"proj_out.weight": torch.zeros(64, 64)}, folder / WHOLE)
    with pytest.raises(CheckpointError, match="0 transformer_blocks, wanted are 2"):
        opened.block(0, torch.float32)
