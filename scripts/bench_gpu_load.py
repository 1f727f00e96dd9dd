"""Requests of four kinds arriving at random: scheduled step by step, and request by request, side by side."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpcclient

from build.settings import Settings
from qwen_image.launch.tritonserver import TritonServer
from scripts.bench_gpu_images import Work
from scripts.bench_report import Figure
from scripts.bench_requests import paint
from scripts.bench_server import counters, started
from scripts.progress import show

KINDS = {  # with the share of requests that are of it
    Work("512², 8 steps", 512, 8, is_guided=False): 0.55,
    Work("1024², 8 steps", 1024, 8, is_guided=False): 0.2,
    Work("512², 50 steps, CFG", 512, 50): 0.15,
    Work("1024², 50 steps, CFG", 1024, 50): 0.1,
}
ARRIVALS_A_SECOND = 0.8
WHOLE_REQUESTS = 1_000_000_000  # tokens a call: more than any request has
SEED = 5
GRAPHS = "qwen_image_dit_graph_misses_total{dit}"


@dataclass(frozen=True, slots=True)
class Answered:
    """One request of the load."""

    kind: Work
    seconds: float  # from its arrival


def load(skeleton: Path, settings: Settings, name: str, seconds: int) -> Iterator[Figure]:
    """The same arrivals whatever the settings."""
    with started(skeleton, settings) as (server, _):
        for kind in KINDS:
            for concurrency in (1, 2, 3):  # the shapes that come alone, and some that come together
                paint(server, *[replace(kind, num_inference_steps=5).picture()] * concurrency)
        show(f"load, {name}: {seconds} s of arrivals\n")
        recorded = counters(server)[GRAPHS]
        start = time.monotonic()
        answered = arrivals(server, seconds)
        took = time.monotonic() - start
        recorded = counters(server)[GRAPHS] - recorded
    for kind in KINDS:
        of_kind = [each.seconds for each in answered if each.kind == kind]
        for share in (50, 95):
            value = float(np.percentile(of_kind, share))
            yield Figure(f"{kind.name}, {name}: p{share} of {len(of_kind)}", "s", (value,))
    # True guidance is twice the work.
    work = sum(each.kind.side**2 * each.kind.num_inference_steps * (1 + each.kind.is_guided) for each in answered)
    yield Figure(f"{name}: {len(answered)} images done", "s", (took,))
    yield Figure(f"{name}: graphs recorded meanwhile", "", (recorded,))
    yield Figure(f"{name}: throughput", "megapixel steps/s", (work / took / 1e6,))


def arrivals(server: TritonServer, seconds: int) -> list[Answered]:
    """Requests at exponential intervals, each answered on a thread of its own; all that arrived are answered."""
    chance = random.Random(SEED)
    answered: list[Answered] = []
    threads: list[threading.Thread] = []
    outputs = [grpcclient.InferRequestedOutput("latents")]
    with grpcclient.InferenceServerClient(server.grpc_url) as client:

        def ask(kind: Work) -> None:
            start = time.monotonic()
            client.infer("qwen_image", kind.picture().inputs(), outputs=outputs)
            answered.append(Answered(kind, time.monotonic() - start))

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
            threads.append(threading.Thread(target=ask, args=(kind,)))
            threads[-1].start()
            time.sleep(chance.expovariate(ARRIVALS_A_SECOND))
        for thread in threads:
            thread.join()
    return answered
