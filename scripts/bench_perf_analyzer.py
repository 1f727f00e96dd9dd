"""NVIDIA's perf_analyzer: brought into .cache, run against the ensemble, its report read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.bench_debian import LIBRARIES, LOADER, ToolUnavailable, checked, newer_libraries

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "perf_analyzer"
PROMPTS = ROOT / "clients" / "perf_analyzer" / "prompts.json"
WHEEL = "perf-analyzer==2.60.0"
PLATFORM = "manylinux_2_38_x86_64"  # named to pip, which else takes an empty placeholder where glibc is older
HELP = """\
perf_analyzer can't run on this machine: {reason}.
Its wheel ({wheel}, from PyPI) wants glibc 2.38 and libstdc++ of GCC 13 or newer: use Ubuntu 24.04 or Debian 13; or
Debian 12 with apt-get, dpkg-deb and a Debian mirror among its sources, from which newer libraries are unpacked into
.cache."""
Protocol = Literal["HTTP", "gRPC"]


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of perf_analyzer found. Every request of it was served: the tool ends at the first that fails."""

    requests: int
    images_per_second: float
    p50_ms: float
    p95_ms: float
    report: str

    @classmethod
    def read(cls, report: str) -> Load:
        """From the tool's report. ToolUnavailable if it holds no measurement."""

        def number(pattern: str) -> float:
            found = re.search(pattern, report)
            if found is None:
                raise ToolUnavailable(f"perf_analyzer's report has no {pattern!r}:\n{report}")
            return float(found[1])

        return cls(
            requests=int(number(r"Request count: (\d+)")),
            images_per_second=number(r"Throughput: ([\d.]+) infer/sec"),
            p50_ms=number(r"p50 latency: (\d+) usec") / 1000,
            p95_ms=number(r"p95 latency: (\d+) usec") / 1000,
            report=report,
        )


def perf_analyzer() -> list[str]:
    """The start of a command that runs the tool, fetched the first time. ToolUnavailable says what is missing."""
    try:
        binary = unpacked_wheel()
        if subprocess.run([binary, "--version"], capture_output=True, check=False).returncode == 0:
            return [str(binary)]
        root = newer_libraries(FOLDER / "debian")
    except ToolUnavailable as error:
        raise ToolUnavailable(HELP.format(reason=str(error).rstrip("."), wheel=WHEEL)) from error
    return [str(root / LOADER), "--library-path", str(root / LIBRARIES), str(binary)]


def unpacked_wheel() -> Path:
    """The executable out of the wheel."""
    folder = FOLDER / WHEEL.replace("==", "-")
    binary = folder / "perf_analyzer" / "bin" / "perf_analyzer"
    if not binary.is_file():
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        only = ["--no-deps", "--only-binary=:all:", f"--platform={PLATFORM}"]
        checked([*pip, "download", *only, f"--dest={FOLDER}", WHEEL])
        staging = folder.with_suffix(".tmp")
        shutil.rmtree(staging, ignore_errors=True)
        for wheel in FOLDER.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(staging)
        (staging / binary.relative_to(folder)).chmod(0o755)
        staging.rename(folder)
    return binary


def measure(
    url: str, protocol: Protocol, *, concurrency: int, requests: int, warm_up: int = 0, prompts: Path = PROMPTS
) -> Load:
    """Drive the ensemble with the shipped prompts or others, `concurrency` requests in flight, as many as told."""
    command = [
        *perf_analyzer(),
        *("-m", "qwen_image", "-u", url, "-i", protocol.lower()),
        f"--input-data={prompts}",
        f"--concurrency-range={concurrency}",
        f"--request-count={requests}",
        f"--warmup-request-count={warm_up}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolUnavailable(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return Load.read(done.stdout)
