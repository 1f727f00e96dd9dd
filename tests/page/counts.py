"""What the server's metrics count."""

from __future__ import annotations

import time
import urllib.request

from qwen_image.launch.tritonserver import TritonServer


def count(server: TritonServer, metric: str) -> int:
    """Over all models."""
    with urllib.request.urlopen(server.metrics_url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(f"{metric}{{"))


def wait_until(server: TritonServer, metric: str, value: int) -> None:
    """The metrics are handed over ten times a second."""
    deadline = time.monotonic() + 30
    while count(server, metric) != value:
        assert time.monotonic() < deadline, f"{metric} is {count(server, metric)}, not {value}"
        time.sleep(0.05)
