"""The requests that the benchmark sends, through tritonclient; latents only, so that no VAE takes part."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
from numpy.typing import NDArray

from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import TritonServer
from qwen_image.text.tokenizer import PromptTokenizer

WORDS = ("red", "circle", "above", "a", "blue", "square", "on", "yellow", "background", "two", "small", "green")


@dataclass(frozen=True, slots=True)
class Picture:
    """What one request asks for."""

    prompt: str
    side: int  # pixels
    num_inference_steps: int
    seed: int = 0
    negative_prompt: str | None = None

    def inputs(self) -> list[grpcclient.InferInput]:
        tensors: dict[str, NDArray[Any]] = {"prompt": text(self.prompt), "seed": np.array([[self.seed]], np.int64)}
        for name in ("height", "width"):
            tensors[name] = np.array([[self.side]], np.int32)
        tensors["num_inference_steps"] = np.array([[self.num_inference_steps]], np.int32)
        if self.negative_prompt is not None:
            tensors["negative_prompt"] = text(self.negative_prompt)
        inputs = []
        for name, value in tensors.items():
            kind = {"O": "BYTES", "i": f"INT{8 * value.itemsize}"}[value.dtype.kind]
            inputs.append(grpcclient.InferInput(name, list(value.shape), kind))
            inputs[-1].set_data_from_numpy(value)
        return inputs


def text(value: str) -> NDArray[np.object_]:
    return np.array([[value.encode()]], np.object_)


def paint(server: TritonServer, *pictures: Picture) -> float:
    """All of them at once, each in a request of its own; the seconds until the last was done."""
    outputs = [grpcclient.InferRequestedOutput("latents")]
    with grpcclient.InferenceServerClient(server.grpc_url) as client, ThreadPoolExecutor(len(pictures)) as pool:
        start = time.perf_counter()
        list(pool.map(lambda picture: client.infer("qwen_image", picture.inputs(), outputs=outputs), pictures))
        return time.perf_counter() - start


def prompt_of(num_tokens: int, checkpoint: Path) -> str:
    """A prompt that the checkpoint's own tokenizer splits into about as many tokens, the template's end counted."""
    tokenize = PromptTokenizer.load(open_checkpoint(checkpoint))
    return longest_within(num_tokens, lambda prompt: len(tokenize("prompt", prompt)) - tokenize.template_tokens)


def longest_within(num_tokens: int, count: Callable[[str], int]) -> str:
    words: list[str] = []
    for word in itertools.cycle(WORDS):
        if count(" ".join([*words, word])) > num_tokens:
            return " ".join(words)
        words.append(word)
    raise AssertionError("unreachable: the cycle has no end")
