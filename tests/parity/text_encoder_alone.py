"""A server of nothing but a checkpoint's text encoder, and requests to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpcclient

from build.repository import render_repository
from qwen_image.checkpoint import open_checkpoint
from qwen_image.images import packed
from qwen_image.launch.tritonserver import Ports, TritonServer
from tests.servers import unlimited_grant


@contextmanager
def text_encoder_of(folder: Path, scratch: Path) -> Iterator[TritonServer]:
    repository = render_repository(open_checkpoint(folder), scratch / "repository")
    for model in repository.iterdir():
        if model.name != "text_encoder":
            shutil.rmtree(model)
    with TritonServer(repository, Ports.free(), scratch / "tritonserver.log") as running:
        running.wait_until_ready()
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


def column(name: str, rows: list[list[bytes]]) -> grpcclient.InferInput:
    """A BYTES input; shorter rows are filled up with empty elements."""
    longest = max(map(len, rows))
    values = np.array([[*row, *[b""] * (longest - len(row))] for row in rows], np.object_)
    made = grpcclient.InferInput(name, list(values.shape), "BYTES")
    made.set_data_from_numpy(values)
    return made


def encode(server, prompts, pictures, negatives=None) -> dict[str, np.ndarray]:
    """All outputs for rows of one request: `pictures` has a list of arrays, or of packed bytes, a row."""
    grant = column("grant", [[unlimited_grant(server)]] * len(prompts))
    inputs = [grant, column("prompt", [[prompt.encode()] for prompt in prompts])]
    if negatives is not None:
        inputs.append(column("negative_prompt", [[prompt.encode()] for prompt in negatives]))
    if pictures is not None:
        inputs.append(
            column(
                "condition_pictures",
                [[each if isinstance(each, bytes) else packed(each) for each in row] or [b""] for row in pictures],
            )
        )
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        result = client.infer("text_encoder", inputs)
        return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}
