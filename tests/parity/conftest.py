"""A server that edits one picture, beside those of all tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qwen_image.launch.tritonserver import TritonServer
from tests.servers import serving


@pytest.fixture(scope="package")
def edit_one_server(
    slow, tiny_edit_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonServer]:
    """One over a checkpoint whose files are those of the published ones."""
    folder = tmp_path_factory.mktemp("edit_one_server")
    with serving(with_published_files(tiny_edit_checkpoint, folder / "checkpoint"), folder) as running:
        yield running


def with_published_files(folder: Path, copy: Path) -> Path:
    """A copy whose processor has the files of the published checkpoints, which transformers 4 wrote."""
    processor = shutil.copytree(folder, copy) / "processor"
    written = json.loads((processor / "processor_config.json").read_text())
    (processor / "processor_config.json").unlink()
    for file, part in (("preprocessor_config", "image_processor"), ("video_preprocessor_config", "video_processor")):
        contents = written[part] | {"processor_class": written["processor_class"]}
        (processor / f"{file}.json").write_text(json.dumps(contents))
    return copy
