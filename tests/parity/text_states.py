"""Requests to a server's text encoder, as the models before it make them."""

from __future__ import annotations

import numpy as np
import tritonclient.grpc as grpcclient

from qwen_image.images import packed
from tests.servers import unlimited_grant


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
