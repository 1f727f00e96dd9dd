"""What export, build and check of a full-size block cost: the table in docs/tensorrt.md.

Random weights, so no checkpoint is needed. Each precision and step is a process of its own, for its peak memory.

python -m build.figures
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from build.check_blocks import block_error, open_graph
from build.engines import build_engines
from build.export import export, onnx_path
from build.target import Target
from qwen_image.checkpoint import Checkpoint
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.precision import Precision
from qwen_image.engines.manifest import read_manifest
from qwen_image.families import QWEN_IMAGE

CONFIG = {"num_layers": 60, "num_attention_heads": 24, "attention_head_dim": 128}  # the 20 B transformer's blocks
STEPS = ("export", "build", "check")
CHECKED_BLOCKS = 3


def measure(step: str, precision: Precision, folder: Path) -> str:
    """One step, and what it took."""
    checkpoint, start = Checkpoint(folder, QWEN_IMAGE), time.monotonic()
    path = onnx_path(folder, "block", precision)
    if step == "export":
        export(checkpoint, folder, precision, ["block"])
        result = f"{path.stat().st_size:,} bytes"
    elif step == "build":
        target = Target("tensorrt_rtx", precision, compute_capability="8.9")
        (manifest,) = build_engines(checkpoint, folder, folder / "engines", target, ["block"])
        result = f"{read_manifest(manifest).engine_bytes:,} bytes"
    else:
        weights, session = DummyWeights(CONFIG), open_graph(path, precision)
        start = time.monotonic()
        errors = [block_error(session, weights, index, precision) for index in range(CHECKED_BLOCKS)]
        result = f"{CHECKED_BLOCKS} blocks, error {max(errors):.1e}"
    seconds = time.monotonic() - start
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{precision} {step}: {seconds:.1f} s, peak {peak_gib:.1f} GiB, {result}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs=3, metavar=("STEP", "PRECISION", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        step, precision, folder = options.only
        print(measure(step, Precision(precision), Path(folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "transformer").mkdir()
        (Path(folder) / "transformer" / "config.json").write_text(json.dumps(CONFIG))
        for precision in (Precision.BF16, Precision.FP8):
            for step in STEPS:
                subprocess.run([sys.executable, "-m", "build.figures", "--only", step, precision, folder], check=True)


if __name__ == "__main__":
    main()
