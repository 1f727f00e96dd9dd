"""Measure the server on this machine: one table of what was promised and what was found.

Two servers are started: one over the smallest checkpoint, several times, for readiness and memory; one over a tiny
checkpoint with text states as wide as Qwen-Image's, so that as many bytes travel as at full size, for the rest.
docs/benchmarks.md says what each figure means.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import resolve_checkpoint
from qwen_image.errors import QwenImageError
from qwen_image.launch.tritonserver import TritonServer
from scripts.bench_figures import STEPS, mean_batches, overhead
from scripts.bench_perf_analyzer import PROMPTS, WHEEL, Protocol, measure
from scripts.bench_report import ROOT, Figure, as_json, surroundings, table
from scripts.bench_requests import prompt_of
from scripts.bench_server import memory_gib, started, triton_version
from scripts.progress import show

TINY_CHECKPOINT = ROOT / ".cache" / "tiny_checkpoint"
WIDE_CHECKPOINT = ROOT / ".cache" / "tiny_checkpoint_3584"
QWEN_IMAGE_STATES = 3584  # values of one token's text states
PROMPT_TOKENS = 512
CONCURRENCY = 8


def main() -> int:
    options = arguments()
    found = surroundings(["scripts/bench", *sys.argv[1:]], {"perf_analyzer": WHEEL.partition("==")[2]})
    try:
        tiny = checkpoint(options.checkpoint, TINY_CHECKPOINT, joint_attention_dim=64)
        wide = checkpoint(options.checkpoint, WIDE_CHECKPOINT, joint_attention_dim=QWEN_IMAGE_STATES)
        figures = list(starting(tiny, options.repetitions))
        with started(wide) as (server, _):
            found["server"] = f"Triton {triton_version(server)}"
            figures += serving(server, prompt_of(PROMPT_TOKENS, wide), options.repetitions, options.requests)
    except QwenImageError as error:
        show(f"error: {error}\n")
        return 1
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"\n{table(figures)}")
    if options.json:
        options.json.write_text(as_json(found, figures), encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the server on this machine.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--checkpoint", help="a folder in the diffusers layout or a Hugging Face id; tiny ones of this kind if left out"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="runs of which the median is taken")
    parser.add_argument("--requests", type=int, default=200, help=f"of one run of perf_analyzer with {PROMPTS.name}")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args()


def checkpoint(name: str | None, made: Path, *, joint_attention_dim: int) -> Path:
    """The one that was named, else a tiny one, made the first time."""
    if name is not None:
        return resolve_checkpoint(name, None)
    if not (made / "model_index.json").is_file():
        write_tiny_checkpoint(made, joint_attention_dim=joint_attention_dim)
    return made


def starting(checkpoint: Path, repetitions: int) -> Iterator[Figure]:
    """Readiness and memory, from a fresh server each time."""
    ready, memory = [], []
    for run in range(repetitions):
        show(f"start {run + 1} of {repetitions} over {checkpoint}\n")
        with started(checkpoint) as (server, seconds):
            mean_batches(server, "a red circle")
            ready.append(seconds)
            memory.append(memory_gib(server))
    yield Figure("start to ready", "s", tuple(ready), target=40)
    yield Figure("memory after 8 concurrent images (PSS of all processes)", "GiB", tuple(memory), target=4)


def serving(server: TritonServer, prompt: str, repetitions: int, requests: int) -> Iterator[Figure]:
    """Steps, batches and whole requests, from one server."""
    yield from overheads(server, prompt, repetitions)
    yield from batches(server, repetitions)
    yield from loads(server, repetitions, requests)


def overheads(server: TritonServer, prompt: str, repetitions: int) -> Iterator[Figure]:
    for is_guided, words in ((False, ""), (True, ", negative prompt as long")):
        name = f"overhead of a step, 1024 x 1024, {PROMPT_TOKENS} tokens{words}"
        show(f"{name}\n")
        overhead(server, prompt, is_guided=is_guided)  # this size's first picture is not representative
        long = [overhead(server, prompt, is_guided=is_guided) for _ in range(repetitions)]
        short = [overhead(server, prompt, is_guided=is_guided, num_steps=1) for _ in range(repetitions)]
        yield Figure(name, "ms", tuple(run.of_steps_ms for run in long), target=4)
        yield Figure(
            "- of the first step, which carries the text states", "ms", tuple(run.of_steps_ms for run in short)
        )
        yield Figure(
            f"- of the whole request, spread over its {STEPS} steps", "ms", tuple(run.of_request_ms for run in long)
        )


def batches(server: TritonServer, repetitions: int) -> Iterator[Figure]:
    show(f"mean batch with {CONCURRENCY} requests in flight\n")
    by_triton, by_transformer = zip(*(mean_batches(server, "a red circle") for _ in range(repetitions)), strict=True)
    name = f"mean dit batch, {CONCURRENCY} concurrent requests"
    yield Figure(f"{name} (Triton's statistics)", "rows", by_triton, target=5, bound="at least")
    yield Figure(f"{name} (our metrics)", "rows", by_transformer, target=5, bound="at least")


def loads(server: TritonServer, repetitions: int, requests: int) -> Iterator[Figure]:
    urls: dict[Protocol, str] = {"HTTP": server.http_url, "gRPC": server.grpc_url}
    for protocol, url in urls.items():
        show(f"perf_analyzer over {protocol}\n")
        runs = [
            measure(url, protocol, concurrency=CONCURRENCY, requests=requests, warm_up=20) for _ in range(repetitions)
        ]
        name = f"perf_analyzer, {protocol}, {CONCURRENCY} in flight"
        yield Figure(f"{name}: throughput", "images/s", tuple(run.images_per_second for run in runs))
        yield Figure(f"{name}: latency, median", "ms", tuple(run.p50_ms for run in runs))
        yield Figure(f"{name}: latency, 95th percentile", "ms", tuple(run.p95_ms for run in runs))


if __name__ == "__main__":
    sys.exit(main())
