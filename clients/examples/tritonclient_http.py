"""An image over HTTP with NVIDIA's own client.

usage: tritonclient_http.py localhost:8000 circle.png
"""
# ruff: noqa: T201

import sys

import numpy as np
import tritonclient.http as triton
from PIL import Image


def tensor(name: str, value: object, datatype: str, dtype: type[np.generic]) -> triton.InferInput:
    """One input for one image: [1, 1], batch dimension first."""
    return triton.InferInput(name, [1, 1], datatype).set_data_from_numpy(np.array([[value]], dtype))


def main(url: str, output: str) -> None:
    with triton.InferenceServerClient(url) as client:
        result = client.infer(
            "qwen_image",
            [
                tensor("prompt", "a red circle on a white wall", "BYTES", np.object_),
                tensor("height", 128, "INT32", np.int32),
                tensor("width", 128, "INT32", np.int32),
                tensor("num_inference_steps", 4, "INT32", np.int32),
                tensor("seed", 42, "INT64", np.int64),
            ],
            outputs=[triton.InferRequestedOutput("image"), triton.InferRequestedOutput("used_seed")],
        )
    Image.fromarray(result.as_numpy("image")[0]).save(output)  # uint8 [images, height, width, 3]
    print(f"{output}: seed {result.as_numpy('used_seed')[0, 0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
