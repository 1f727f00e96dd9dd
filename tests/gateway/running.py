"""A gateway as its own process, as an operator starts it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openai import AsyncOpenAI, OpenAI

from qwen_image.launch.tritonserver import Ports
from tests.processes import run_process


@dataclass(frozen=True, slots=True)
class Gateway:
    """One that runs.

    Attributes:
        url: where it listens, http://host:port.
    """

    url: str
    log_path: Path

    def client(self, key: str = "none") -> OpenAI:
        """OpenAI's own client, which would otherwise try a refused request again."""
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def async_client(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def metric(self, line: str) -> float:
        """The value of one line of /metrics; 0 where it isn't there yet."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = dict(each.rsplit(" ", 1) for each in answer.read().decode().splitlines())
        return float(lines.get(line, 0))


@contextlib.contextmanager
def gateway_over(url: str, folder: Path, *options: str) -> Iterator[Gateway]:
    """One over the Triton at `url`; its log is in `folder`."""
    port = Ports.free().http
    log_path = folder / f"gateway-{port}.log"
    command = [sys.executable, "-m", "qwen_image_gateway", "--url", url, "--port", str(port), *options]
    with log_path.open("wb") as log, run_process(command, stdout=log, stderr=subprocess.STDOUT) as process:
        gateway = Gateway(f"http://127.0.0.1:{port}", log_path)
        try:
            _wait_until_alive(gateway, process)
            yield gateway
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _wait_until_alive(gateway: Gateway, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, gateway.log_path.read_text()
        try:
            with urllib.request.urlopen(f"{gateway.url}/health", timeout=5):
                return
        except urllib.error.URLError:
            time.sleep(0.05)
