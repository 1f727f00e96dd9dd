"""Where a transformer's tensors are read from: the files that an index names, each tensor once, every block whole."""

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

NAME = "transformer_blocks.1.attn.to_q.weight"


@pytest.fixture
def folder(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """The transformer of a copy of the tiny checkpoint."""
    return Path(shutil.copytree(checkpoint.folder, tmp_path / "copy")) / "transformer"


def weights(folder: Path) -> CheckpointWeights:
    return CheckpointWeights(open_checkpoint(folder.parent))


def split(folder: Path) -> dict[str, Path]:
    """The one file as two and an index, as large checkpoints have it; which tensor is in which."""
    (whole,) = folder.glob("*.safetensors")
    tensors = load_file(whole)
    whole.unlink()
    names = sorted(tensors)
    parts = {"model-1-of-2.safetensors": names[::2], "model-2-of-2.safetensors": names[1::2]}
    for part, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / part)
    found = {name: part for part, own in parts.items() for name in own}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": found}))
    return {name: folder / part for name, part in found.items()}


def test_a_split_checkpoint_reads_as_the_whole_one(checkpoint, folder):
    found = split(folder)
    assert weights(folder).files == found
    expected = CheckpointWeights(checkpoint).block(1, torch.float32)
    read = weights(folder).block(1, torch.float32)
    assert read.keys() == expected.keys()
    assert all(torch.equal(read[name], expected[name]) for name in expected)


def test_a_file_that_the_index_does_not_name_is_not_read(folder):
    found = split(folder)
    save_file({NAME: torch.zeros(64, 64)}, folder / "model.fp16.safetensors")
    assert weights(folder).files == found


def test_a_file_that_the_index_names_and_is_not_there_is_named(folder):
    split(folder)[NAME].unlink()
    with pytest.raises(
        CheckpointError, match=r"model-\d-of-2.safetensors, which the index beside it names, is missing"
    ):
        weights(folder).block(1, torch.float32)


def test_a_tensor_in_two_files_is_an_error_with_both(folder):
    (whole,) = folder.glob("*.safetensors")
    save_file({NAME: torch.zeros(64, 64)}, folder / "other.safetensors")
    message = rf"^{NAME} is in .*{whole.name} and in other.safetensors: remove one of the files$"
    with pytest.raises(CheckpointError, match=message):
        weights(folder).block(1, torch.float32)


def test_a_tensor_that_a_block_lacks_is_named(folder):
    (whole,) = folder.glob("*.safetensors")
    tensors = load_file(whole)
    del tensors[NAME]
    save_file(tensors, whole)
    assert len(weights(folder).block(0, torch.float32)) == 32
    with pytest.raises(CheckpointError, match=r"lacks attn.to_q.weight of block 1; its configuration has 2 blocks"):
        weights(folder).block(1, torch.float32)


@pytest.mark.parametrize("contents", ["{}", '{"weight_map": []}'])
def test_an_index_without_a_map_is_an_error(folder, contents):
    (folder / "model.safetensors.index.json").write_text(contents)
    with pytest.raises(CheckpointError, match=r"model.safetensors.index.json has no weight_map"):
        weights(folder).block(0, torch.float32)


def test_two_indices_are_an_error_with_both(folder):
    split(folder)
    shutil.copyfile(folder / "model.safetensors.index.json", folder / "other.safetensors.index.json")
    with pytest.raises(CheckpointError, match=r"several indices, model.*, other.*: leave the one that is to be served"):
        weights(folder).block(0, torch.float32)
