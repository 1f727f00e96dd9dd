"""diffusers' transformer of the same size on the same GPU: eager, and through torch.compile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from scripts.bench_report import Figure

SIDE, TEXT_TOKENS, STEPS = 1024, 64, 50
MEASURED_STEPS = 5


def peers(skeleton: Path) -> Iterator[Figure]:
    """Fifty guided steps at 1024 x 1024 as its pipeline makes them, two calls a step; reckoned from a few steps."""
    from diffusers import QwenImageTransformer2DModel

    config = json.loads((skeleton / "transformer" / "config.json").read_text())
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        transformer = QwenImageTransformer2DModel.from_config(config).eval()
    torch.set_default_dtype(torch.float32)
    step = guided_step(transformer)
    yield Figure(f"diffusers, eager: {STEPS} guided steps at 1024²", "s", seconds(step))
    transformer.compile_repeated_blocks(fullgraph=True)
    yield Figure(f"diffusers, torch.compile: {STEPS} guided steps at 1024²", "s", seconds(step))
    del transformer
    torch.cuda.empty_cache()


def guided_step(transformer: torch.nn.Module) -> Callable[[], None]:
    grid = SIDE // 16
    tokens = torch.randn(1, grid * grid, 64, device="cuda", dtype=torch.bfloat16)
    states = torch.randn(1, TEXT_TOKENS, 3584, device="cuda", dtype=torch.bfloat16)
    timestep = torch.full((1,), 0.7, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.inference_mode():
            for _ in range(2):  # the prompt, then the negative prompt
                transformer(
                    hidden_states=tokens,
                    timestep=timestep,
                    encoder_hidden_states=states,
                    img_shapes=[[(1, grid, grid)]],
                    return_dict=False,
                )

    return step


def seconds(step: Callable[[], None]) -> tuple[float, ...]:
    """Of all steps, by each of the measured ones."""
    for _ in range(3):
        step()
    runs = []
    for _ in range(MEASURED_STEPS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        runs.append(STEPS * start.elapsed_time(end) / 1000)
    return tuple(runs)
