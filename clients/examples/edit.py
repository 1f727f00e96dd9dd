"""Pictures changed as a prompt says, over gRPC with NVIDIA's own client. The server needs an edit checkpoint.

usage: edit.py localhost:8001 result.png picture.png [another.png ...]
"""
# ruff: noqa: T201

import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from PIL import Image


def tensor(name: str, values: list[object], datatype: str, dtype: type[np.generic]) -> triton.InferInput:
    """One input for one image: [1, values], batch dimension first."""
    return triton.InferInput(name, [1, len(values)], datatype).set_data_from_numpy(np.array([values], dtype))


def main(url: str, output: str, *pictures: str) -> None:
    files: list[object] = [Path(picture).read_bytes() for picture in pictures]  # PNG, JPEG or WebP, as they are
    with triton.InferenceServerClient(url) as client:
        result = client.infer(
            "qwen_image_edit",
            [
                tensor("prompt", ["make the background blue"], "BYTES", np.object_),
                tensor("input_image", files, "BYTES", np.object_),
                tensor("num_inference_steps", [4], "INT32", np.int32),
                tensor("seed", [42], "INT64", np.int64),
            ],
            outputs=[triton.InferRequestedOutput("image"), triton.InferRequestedOutput("used_seed")],
        )
    Image.fromarray(result.as_numpy("image")[0]).save(output)  # uint8 [images, height, width, 3]
    print(f"{output}: seed {result.as_numpy('used_seed')[0, 0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
