"""A server started to be measured: how soon it is ready, how much memory it holds, what its counters say."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.ports import Ports
from qwen_image.launch.tritonserver import TritonServer
from qwen_image_contract import Limits

SETTLE_S = 0.3  # the models hand their counters over ten times a second


@contextlib.contextmanager
def started(
    checkpoint: Path, settings: Settings | None = None, limits: Limits | None = None
) -> Iterator[tuple[TritonServer, float]]:
    """A ready server on free ports, and the seconds from the start of its process until then."""
    with tempfile.TemporaryDirectory(prefix="qwen_image_bench_") as folder:
        needs_weights = settings is None or settings.load_format.reads_files
        opened = open_checkpoint(checkpoint, needs_weights=needs_weights)
        repository = render_repository(opened, Path(folder) / "repository", settings=settings, limits=limits)
        start = time.monotonic()
        with TritonServer(repository, Ports.free(), Path(folder) / "tritonserver.log") as server:
            server.wait_until_ready()
            yield server, time.monotonic() - start


def memory_gib(server: TritonServer) -> float:
    """Resident memory of the server and all its children, each shared page counted once: their PSS added up."""
    assert server.process is not None
    parent = psutil.Process(server.process.pid)
    return float(sum(each.memory_full_info().pss for each in (parent, *parent.children(recursive=True)))) / 2**30


def triton_version(server: TritonServer) -> str:
    return str(answer(f"http://{server.http_url}/v2")["version"])


def counters(server: TritonServer) -> dict[str, float]:
    """Ours from the metrics endpoint, `name{model}`; and Triton's own rows and batches of dit."""
    time.sleep(SETTLE_S)
    with urllib.request.urlopen(server.metrics_url, timeout=10) as response:
        text = response.read().decode()
    found = re.findall(r'^(qwen_image_\w+)\{model="(\w+)"\} (\S+)$', text, re.MULTILINE)
    ours = {f"{name}{{{model}}}": float(value) for name, model, value in found}
    theirs = answer(f"http://{server.http_url}/v2/models/dit/stats")["model_stats"][0]
    return {**ours, **{name: float(theirs[name]) for name in ("inference_count", "execution_count")}}


def compute_seconds(server: TritonServer, models: Sequence[str]) -> float:
    """That Triton saw these models compute so far, added up."""
    stats = [answer(f"http://{server.http_url}/v2/models/{model}/stats")["model_stats"][0] for model in models]
    return float(sum(each["inference_stats"]["compute_infer"]["ns"] for each in stats)) / 1e9


def answer(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as response:
        found: dict[str, Any] = json.load(response)
        return found
