"""Single kinds of images asked of a server: how long they take from end to end, and how much of it is not the GPU's."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qwen_image.dit.precision import Precision
from qwen_image.launch.tritonserver import TritonServer
from scripts.bench_figures import COMPUTED, growth
from scripts.bench_perf_analyzer import measure
from scripts.bench_report import Figure
from scripts.bench_requests import Picture, paint
from scripts.bench_server import compute_seconds

PROMPT = (
    "a watercolour of a small harbour at dawn, fishing boats, gulls above the water, warm light on wet stone, "
    "a lighthouse far away, fine paper grain, soft colours"
)
NEGATIVE_PROMPT = "blurry, low quality, watermark"
OTHER_MODELS = ("text_encoder", "vae_decoder")


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of image, `concurrency` of it at once."""

    name: str
    side: int
    num_inference_steps: int
    is_guided: bool = True
    concurrency: int = 1
    target_s: float | None = None

    @property
    def idle_target(self) -> float | None:
        """Percent of the time; a large picture of few steps has none."""
        if self.side < 1024:
            return 5
        return 2 if self.num_inference_steps >= 50 else None

    def picture(self, prompt: str = PROMPT) -> Picture:
        negative_prompt = NEGATIVE_PROMPT if self.is_guided else None
        return Picture(prompt, self.side, self.num_inference_steps, negative_prompt=negative_prompt)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took, and how long the models computed in it."""

    seconds: float
    computed_seconds: float


def images(server: TritonServer, work: Work, repetitions: int) -> Iterator[Figure]:
    """perf_analyzer's latency, and the part of it in which neither transformer, VAE nor text encoder computed."""
    short = replace(work, num_inference_steps=5)
    for _ in range(2):  # every shape of the work, so that its graphs are there
        paint(server, *[short.picture()] * work.concurrency)
    runs = [one_run(server, work, f"{PROMPT}, version {number}") for number in range(repetitions)]
    yield Figure(work.name, "s", tuple(run.seconds for run in runs), target=work.target_s)
    if work.concurrency == 1:
        share = tuple(100 * (run.seconds - run.computed_seconds) / run.seconds for run in runs)
        yield Figure("- of it not computing", "%", share, target=work.idle_target)


def one_run(server: TritonServer, work: Work, prompt: str) -> Run:
    """As many requests as the work has at once. Its prompt is new, so that the text encoder has to read it."""
    loads = []
    with tempfile.TemporaryDirectory(prefix="qwen_image_inputs_") as folder:
        inputs = Path(folder) / "inputs.json"
        inputs.write_text(json.dumps({"data": [asked_for(work.picture(prompt))]}))
        many = {"concurrency": work.concurrency, "requests": work.concurrency}
        before = compute_seconds(server, OTHER_MODELS)
        grown = growth(server, lambda: loads.append(measure(server.grpc_url, "gRPC", prompts=inputs, **many)))
        others = compute_seconds(server, OTHER_MODELS) - before
    return Run(loads[0].p50_ms / 1000, grown(COMPUTED) + others)


def asked_for(picture: Picture) -> dict[str, Any]:
    """A picture as perf_analyzer reads it from its file of inputs."""
    given = {
        "prompt": picture.prompt,
        "height": picture.side,
        "width": picture.side,
        "num_inference_steps": picture.num_inference_steps,
        "seed": picture.seed,
    }
    if picture.negative_prompt is not None:
        given["negative_prompt"] = picture.negative_prompt
    return {name: {"content": [value], "shape": [1]} for name, value in given.items()}


def text_states(server: TritonServer, precision: Precision) -> Iterator[Figure]:
    """Prompts that were never seen, about 50 tokens each, one after another."""
    runs = []
    for number in range(6):
        before = compute_seconds(server, ["text_encoder"])
        paint(server, Work("", 256, 1, is_guided=False).picture(f"{PROMPT}, number {number}"))
        runs.append(1000 * (compute_seconds(server, ["text_encoder"]) - before))
    yield Figure(f"text states of a new prompt, beside {precision}", "ms", tuple(runs[1:]), target=30)


def memory(when: str, target: float | None = None) -> Figure:
    """All that is taken of the GPU now."""
    card = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    asked = ["nvidia-smi", f"--id={card}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    used = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return Figure(f"GPU memory of all models, {when}", "GiB", (float(used) / 1024,), target=target)
