"""Measure what lower precision costs: the exam's pictures in each, beside float32's and bfloat16's.

python -m demo.precision --every 4
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from build.repository import render_repository
from build.settings import Settings
from demo.evaluate import Question, Report, evaluate, exam, through_server
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.launch.tritonserver import Ports, TritonServer

CHECKPOINT = Path(__file__).parent / "checkpoint"


def painted(precision: Precision, questions: Sequence[Question]) -> Report:
    """Through a server whose transformer computes in that precision; VAE and text encoder stay in float32."""
    with tempfile.TemporaryDirectory(prefix="qwen_image_precision_") as folder:
        settings = Settings(precision=precision)
        repository = render_repository(open_checkpoint(CHECKPOINT), Path(folder) / "repository", settings=settings)
        with TritonServer(repository, Ports.free(), Path(folder) / "tritonserver.log") as server:
            server.wait_until_ready()
            return evaluate(through_server(server.grpc_url), questions)


def psnr(left: Image.Image, right: Image.Image) -> float:
    """Peak signal to noise ratio of two pictures of 8 bits, in decibels; infinite for equal ones."""
    error = float(np.square(np.asarray(left, np.float64) - np.asarray(right, np.float64)).mean())
    return float("inf") if error == 0 else 10 * float(np.log10(255**2 / error))


def beside(report: Report, reference: Report) -> tuple[float, float]:
    """Median and 5th percentile of the pictures' PSNR."""
    values = sorted(psnr(*pair) for pair in zip(report.images, reference.images, strict=True))
    return statistics.median(values), values[len(values) // 20]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every so many-th question of the exam")
    questions = exam()[:: parser.parse_args().every]
    reports = {precision: painted(precision, questions) for precision in Precision}
    print(f"{len(questions)} pictures\n\n| | everything right | PSNR beside fp32 | beside bf16 |")
    print("| --- | --- | --- | --- |")
    for precision, report in reports.items():
        cells = [
            "" if report is reports[other] else "{:.1f} dB ({:.1f})".format(*beside(report, reports[other]))
            for other in (Precision.FP32, Precision.BF16)
        ]
        print(f"| {precision} | {report.scores['everything']:.1%} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
