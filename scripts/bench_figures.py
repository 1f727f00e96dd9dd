"""The figures: each function sends its load and reads one number off the server's own counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from qwen_image.launch.tritonserver import TritonServer
from scripts.bench_requests import Picture, paint
from scripts.bench_server import counters

STEPS = 20
SIDE = 1024
WAITED, CALLS = "qwen_image_step_seconds_total{sampler}", "qwen_image_step_calls_total{sampler}"
COMPUTED = "qwen_image_dit_compute_seconds_total{dit}"
ROWS, BATCHES = "qwen_image_dit_batch_rows_total{dit}", "qwen_image_dit_batches_total{dit}"


@dataclass(frozen=True, slots=True)
class Overhead:
    """What one image costs beyond the transformer's compute, in milliseconds a step."""

    of_steps_ms: float  # while the sampler waits for its steps
    of_request_ms: float  # from the client's call to its answer


def overhead(server: TritonServer, prompt: str, *, is_guided: bool, num_steps: int = STEPS) -> Overhead:
    """Of one image in flight, guided by a negative prompt as long as the prompt or not at all."""
    picture = Picture(prompt, SIDE, num_steps, negative_prompt=prompt if is_guided else None)
    seconds: list[float] = []
    grown = growth(server, lambda: seconds.append(paint(server, picture)))
    calls = grown(CALLS)
    return Overhead(
        of_steps_ms=1000 * (grown(WAITED) - grown(COMPUTED)) / calls,
        of_request_ms=1000 * (seconds[0] - grown(COMPUTED)) / calls,
    )


def mean_batches(server: TritonServer, prompt: str) -> tuple[float, float]:
    """Rows of dit's mean batch with 8 requests in flight: as Triton counts executions, as the transformer ran them."""
    picture = Picture(prompt, 256, STEPS)
    grown = growth(server, lambda: paint(server, *(replace(picture, seed=seed) for seed in range(8))))
    return grown("inference_count") / grown("execution_count"), grown(ROWS) / grown(BATCHES)


def growth(server: TritonServer, load: Callable[[], object]) -> Callable[[str], float]:
    """By how much each counter grew under the load."""
    before = counters(server)
    load()
    after = counters(server)
    return lambda name: after[name] - before.get(name, 0.0)
