"""What the scripts share: a server over a repository rendered for a checkpoint, with visible progress; a gateway."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import LoadFormat, open_checkpoint, resolve_checkpoint
from qwen_image.errors import ServerFailed
from qwen_image.serving.tritonserver import Ports, TritonServer

GATEWAY_EXIT_S = 45  # it gives the requests in work 30 s
ROOT = Path(__file__).resolve().parents[1]
DEMO_CHECKPOINT = ROOT / "demo" / "checkpoint"


def checkpoint_folder(name: str | None, revision: str | None, load_format: LoadFormat = LoadFormat.AUTO) -> Path:
    """The checkpoint that was named; else the demo's."""
    if name is None:
        return DEMO_CHECKPOINT
    return resolve_checkpoint(name, revision, needs_weights=load_format.reads_files)


@contextlib.contextmanager
def running_server(
    checkpoint: Path, ports: Ports, host: str = "127.0.0.1", load_format: LoadFormat = LoadFormat.AUTO
) -> Iterator[TritonServer]:
    """A ready server over a repository rendered for this run; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="qwen_image_") as folder:
        opened = open_checkpoint(checkpoint, needs_weights=load_format.reads_files)
        settings = Settings(load_format=load_format)
        repository = render_repository(opened, Path(folder) / "repository", settings=settings)
        log = Path(folder) / "tritonserver.log"
        with TritonServer(repository, ports, log, host=host) as server:
            show(f"starting tritonserver over {checkpoint} (log: {log})\n")
            seconds = server.wait_until_ready(progress=lambda waited: show(f"\r  loading models: {waited:.0f} s"))
            show(f"\r  ready after {seconds:.1f} s   \n")
            yield server


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway's process, and where it listens: http://host:port."""

    url: str
    process: subprocess.Popen[bytes]
    log_path: Path

    def wait_until_alive(self) -> None:
        """ServerFailed if it ends instead."""
        while self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise ServerFailed(f"the gateway ended with code {self.process.returncode}:\n{self.log_path.read_text()}")


@contextlib.contextmanager
def running_gateway(
    server: TritonServer, port: int | None = None, *, with_page: bool = False, model_name: str | None = None
) -> Iterator[RunningGateway]:
    """A gateway over a ready server, on its host; without a port on a free one. Its log lies beside the server's.

    `model_name` is what callers may name the model, too.
    """
    port = Ports.free().http if port is None else port
    log_path = server.log_path.with_name("gateway.log")
    command = [
        *("setpriv", "--pdeathsig", "TERM"),
        *(sys.executable, "-m", "qwen_image_gateway"),
        *("--url", server.grpc_url, "--host", server.host, "--port", str(port)),
        *(["--page"] if with_page else []),
        *(["--served-model-name", model_name] if model_name else []),
    ]
    with (
        log_path.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True) as process,
    ):
        gateway = RunningGateway(f"http://{server.host}:{port}", process, log_path)
        try:
            gateway.wait_until_alive()
            yield gateway
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(GATEWAY_EXIT_S)


def show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
