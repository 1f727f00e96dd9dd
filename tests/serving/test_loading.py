"""What a start says of itself: the models that are missing, and how much of their weights was read."""

from __future__ import annotations

import json
import re

import pytest

from qwen_image.launch.loading import Loading


@pytest.fixture
def big_checkpoint(tmp_path):
    """Two files of 2 GB together that take no room on the disk, and a stray one that nobody loads."""
    folder = tmp_path / "transformer"
    folder.mkdir()
    for number in (1, 2, 3):
        with (folder / f"part-{number}.safetensors").open("wb") as file:
            file.truncate(10**9)
    index = folder / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}))
    return tmp_path


def test_a_model_that_is_missing_is_named_with_the_bytes_that_its_process_read(server, big_checkpoint, tmp_path):
    lines = server.log_path.read_text().splitlines()
    log = tmp_path / "log"
    log.write_text("\n".join(line for line in lines if not re.search("loaded '(dit|text_encoder)'", line)))
    said = Loading(server.repository, big_checkpoint, log, server.process.pid).describe()
    read = re.fullmatch(r"dit \((\d\.\d) of 2\.0 GB\), text_encoder", said)
    assert float(read[1]) > 0


def test_nothing_is_missing_once_the_server_is_ready(server, tiny_checkpoint):
    assert Loading(server.repository, tiny_checkpoint, server.log_path, server.process.pid).describe() == ""
