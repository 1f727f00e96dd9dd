"""The folder of links from which vLLM loads the text encoder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.errors import CheckpointError
from qwen_image.text.encoder_files import encoder_folder


@pytest.fixture
def edit_checkpoint(tiny_edit_checkpoint: Path, tmp_path: Path) -> Checkpoint:
    """Free to be changed."""
    return open_checkpoint(shutil.copytree(tiny_edit_checkpoint, tmp_path / "checkpoint"))


def links(folder: Path) -> dict[str, Path]:
    return {link.name: link.readlink() for link in folder.iterdir()}


def test_it_has_the_files_of_the_text_encoder_and_of_the_processor(edit_checkpoint, tmp_path):
    found = links(encoder_folder(edit_checkpoint, tmp_path / "cache"))
    folders = [edit_checkpoint.folder / "text_encoder", edit_checkpoint.folder / "processor"]
    assert found == {file.name: file for folder in folders for file in folder.iterdir()}
    assert {"config.json", "model.safetensors", "processor_config.json", "tokenizer.json"} <= found.keys()


def test_without_a_processor_it_has_the_tokenizers_files(checkpoint, tmp_path):
    found = links(encoder_folder(checkpoint, tmp_path / "cache"))
    assert found["tokenizer.json"] == checkpoint.folder / "tokenizer" / "tokenizer.json"
    assert found["config.json"] == checkpoint.folder / "text_encoder" / "config.json"


def test_of_two_files_of_one_name_the_text_encoders_is_taken(edit_checkpoint, tmp_path):
    (edit_checkpoint.folder / "processor" / "config.json").write_text("{}")
    found = links(encoder_folder(edit_checkpoint, tmp_path / "cache"))
    assert found["config.json"] == edit_checkpoint.folder / "text_encoder" / "config.json"


def test_a_checkpoint_has_the_same_folder_at_every_start_and_another_one_another(
    edit_checkpoint, checkpoint, tmp_path, monkeypatch
):
    first = encoder_folder(edit_checkpoint, tmp_path / "cache")
    monkeypatch.chdir(edit_checkpoint.folder.parent)
    assert encoder_folder(open_checkpoint("checkpoint"), tmp_path / "cache") == first
    assert encoder_folder(checkpoint, tmp_path / "cache") != first


def test_a_checkpoint_that_changed_is_followed(edit_checkpoint, tmp_path):
    folder = encoder_folder(edit_checkpoint, tmp_path / "cache")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "elsewhere")
    (edit_checkpoint.folder / "text_encoder" / "generation_config.json").unlink()
    (edit_checkpoint.folder / "processor" / "chat_template.jinja").write_text("")
    found = links(encoder_folder(edit_checkpoint, tmp_path / "cache"))
    assert found["config.json"] == edit_checkpoint.folder / "text_encoder" / "config.json"
    assert "generation_config.json" not in found
    assert "chat_template.jinja" in found


def test_folders_of_checkpoints_that_are_gone_are_removed(edit_checkpoint, checkpoint, tmp_path):
    gone = encoder_folder(edit_checkpoint, tmp_path / "cache")
    shutil.rmtree(edit_checkpoint.folder)
    kept = encoder_folder(checkpoint, tmp_path / "cache")
    assert not gone.exists()
    assert list((tmp_path / "cache").iterdir()) == [kept]


def test_many_may_make_it_at_once(edit_checkpoint, tmp_path, at_once):
    folders = at_once(lambda _: encoder_folder(edit_checkpoint, tmp_path / "cache"), range(32))
    assert set(folders) == {folders[0]}
    assert links(folders[0]) == links(encoder_folder(edit_checkpoint, tmp_path / "alone"))


def test_a_cache_that_can_not_be_written_is_named_with_the_way_out(checkpoint, tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(CheckpointError, match=r"cache can't be written .*: set VLLM_CACHE_ROOT to a folder that can"):
        encoder_folder(checkpoint, tmp_path / "cache")
