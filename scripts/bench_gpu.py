"""Measure Qwen-Image at full size on one GPU, served with random weights: one table, one command.

python -m scripts.bench_gpu                  # everything
python -m scripts.bench_gpu bf16 fp8         # only these stages

A checkpoint of the published dimensions without weights is made on the spot (`load_format=dummy`), so nothing is
downloaded. docs/benchmarks.md says what each figure means and what was found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from build.settings import GpuSettings
from build.skeleton_checkpoint import write_skeleton
from qwen_image.checkpoint import LoadFormat
from qwen_image.dit.precision import Precision
from qwen_image.errors import QwenImageError
from qwen_image_contract import Limits
from scripts.bench_gpu_images import Work, images, memory, text_states
from scripts.bench_gpu_load import WHOLE_REQUESTS, load
from scripts.bench_gpu_peers import peers
from scripts.bench_report import Figure, as_json, gpu_surroundings, table
from scripts.bench_requests import paint
from scripts.bench_server import started
from scripts.progress import show

BF16 = (
    Work("1328², 50 steps, CFG, bf16", 1328, 50, target_s=22.0),
    Work("1024², 50 steps, CFG, bf16", 1024, 50, target_s=11.0),
    Work("1024², 8 steps, no CFG, bf16", 1024, 8, is_guided=False, target_s=1.0),
    Work("512², 50 steps, CFG, bf16", 512, 50, target_s=3.4),
    Work("512², 8 steps, no CFG, bf16", 512, 8, is_guided=False),
    Work("512², 50 steps, CFG, bf16, eight at once", 512, 50, concurrency=8, target_s=22.0),
)
FP8 = (
    Work("1328², 50 steps, CFG, FP8", 1328, 50),
    Work("1024², 50 steps, CFG, FP8", 1024, 50, target_s=8.5),
    Work("512², 50 steps, CFG, FP8", 512, 50, target_s=2.6),
    Work("512², 50 steps, CFG, FP8, eight at once", 512, 50, concurrency=8, target_s=15.0),
    Work("1024², 8 steps, no CFG, FP8", 1024, 8, is_guided=False),
)


ONLY_1328 = Limits(max_side=1328, max_pixels=1328 * 1328)
STAGES = ("bf16", "fp8", "memory", "load-steps", "load-requests", "peers")


def settings(precision: Precision, **others: Any) -> GpuSettings:
    return GpuSettings(engine="torch", precision=precision, load_format=LoadFormat.DUMMY, **others)


def served(skeleton: Path, precision: Precision, works: tuple[Work, ...], repetitions: int) -> Iterator[Figure]:
    """Whole requests, from one server."""
    with started(skeleton, settings(precision)) as (server, seconds):
        show(f"{precision}: ready after {seconds:.0f} s\n")
        yield Figure(f"start to ready, {precision}", "s", (seconds,))
        yield from text_states(server, precision)
        for work in works:
            yield from images(server, work, repetitions)
            if work is works[0]:
                yield memory(f"{precision}, after {work.side}² alone", target=60)
        yield memory(f"{precision}, after all of this")


def least_memory(skeleton: Path) -> Iterator[Figure]:
    """bf16 with limits that admit one guided picture of 1328 × 1328 and nothing larger; the log's words on memory."""
    with started(skeleton, settings(Precision.BF16, max_batch_tokens=2 * (1328 // 16) ** 2), ONLY_1328) as (server, _):
        yield memory("bf16, limits for one of 1328², at the start", target=60)
        paint(server, Work("", 1328, 10).picture())
        yield memory("the same, after one", target=60)
        show("".join(f"{line}\n" for line in server.log_path.read_text().splitlines() if "GPU memory" in line))


def stages(skeleton: Path, options: argparse.Namespace) -> dict[str, Callable[[], Iterator[Figure]]]:
    return {
        "bf16": lambda: served(skeleton, Precision.BF16, BF16, options.repetitions),
        "fp8": lambda: served(skeleton, Precision.FP8, FP8, options.repetitions),
        "memory": lambda: least_memory(skeleton),
        "load-steps": lambda: load(skeleton, settings(Precision.FP8), "step by step", options.seconds),
        "load-requests": lambda: load(
            skeleton,
            settings(Precision.FP8, tokens_per_call=WHOLE_REQUESTS, tokens_per_call_alone=WHOLE_REQUESTS),
            "whole requests",
            options.seconds,
        ),
        "peers": lambda: peers(skeleton),
    }


def main() -> int:
    options = arguments()
    found = gpu_surroundings(["python -m scripts.bench_gpu", *sys.argv[1:]])
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="qwen_image_skeleton_") as folder:
        skeleton = write_skeleton(Path(folder) / "qwen-image", default_size=(1024, 1024))
        for name, stage in stages(skeleton, options).items():
            if options.stages and name not in options.stages:
                continue
            try:
                for figure in stage():
                    show(" | ".join(figure.row) + "\n")
                    figures.append(figure)
            except QwenImageError as error:
                show(f"error: {name}: {error}\n")
                return 1
            finally:
                if options.json:
                    options.json.write_text(as_json(found, figures), encoding="utf-8")
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"\n{table(figures)}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; all, if none is named")
    parser.add_argument(
        "--repetitions", type=int, default=3, help="images (or times eight) of which the median is taken"
    )
    parser.add_argument("--seconds", type=int, default=120, help="of arrivals in a stage of load")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    if unknown := set(options.stages) - set(STAGES):
        parser.error(f"no stage is called {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
