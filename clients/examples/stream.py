"""A preview after every step, over a gRPC stream with NVIDIA's own client.

usage: stream.py localhost:8001 circle.png
"""
# ruff: noqa: T201

import queue
import sys

import numpy as np
import tritonclient.grpc as triton
from PIL import Image


def tensor(name: str, value: object, datatype: str, dtype: type[np.generic]) -> triton.InferInput:
    """One input for one image: [1, 1], batch dimension first."""
    return triton.InferInput(name, [1, 1], datatype).set_data_from_numpy(np.array([[value]], dtype))


def main(url: str, output: str) -> None:
    responses: queue.Queue[tuple[triton.InferResult, Exception | None]] = queue.Queue()
    with triton.InferenceServerClient(url) as client:
        client.start_stream(lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            "qwen_image_stream",
            [
                tensor("prompt", "a red circle on a white wall", "BYTES", np.object_),
                tensor("height", 128, "INT32", np.int32),
                tensor("width", 128, "INT32", np.int32),
                tensor("num_inference_steps", 4, "INT32", np.int32),
                tensor("seed", 42, "INT64", np.int64),
            ],
            enable_empty_final_response=True,
        )
        is_last = False
        while not is_last:
            result, error = responses.get()
            if error is not None:
                raise error
            is_last = result.get_response().parameters["triton_final_response"].bool_param
            if result.as_numpy("image") is None:  # the last response may be an empty one
                continue
            Image.fromarray(result.as_numpy("image")[0]).save(output)  # each preview replaces the one before
            step, steps = result.as_numpy("step")[0, 0], result.as_numpy("used_num_inference_steps")[0, 0]
            print(f"step {step} of {steps}: {output}")


if __name__ == "__main__":
    main(*sys.argv[1:])
