"""What the scripts share: a server over a repository rendered for a checkpoint, with visible progress; a gateway."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint, resolve_checkpoint
from qwen_image.errors import ServerFailed
from qwen_image.launch.loading import Loading
from qwen_image.launch.ports import Ports, local_address
from qwen_image.launch.tritonserver import START_TIMEOUT_S, TritonServer
from qwen_image.serving.shared_memory import check_shared_memory
from qwen_image_contract import Limits
from scripts.progress import Progress, show

GATEWAY_EXIT_S = 45  # it gives the requests in work 30 s
LOG_TAIL_BYTES = 4096
ROOT = Path(__file__).resolve().parents[1]
DEMO_CHECKPOINT = ROOT / "demo" / "checkpoint"


def checkpoint_folder(name: str | None, revision: str | None) -> Path:
    """The checkpoint that was named; else the demo's."""
    return DEMO_CHECKPOINT if name is None else resolve_checkpoint(name, revision)


@contextlib.contextmanager
def running_server(
    checkpoint: Path,
    ports: Ports,
    *,
    host: str = "127.0.0.1",
    start_timeout_s: int = START_TIMEOUT_S,
    opens_admin_apis: bool = False,
    settings: Settings | None = None,
    limits: Limits | None = None,
    engines: Sequence[Path] = (),
) -> Iterator[TritonServer]:
    """A ready server over a repository rendered for this run; both are gone afterwards."""
    settings = settings or Settings()
    opened = open_checkpoint(checkpoint, needs_weights=settings.load_format.reads_files)
    if warning := check_shared_memory(opened, limits or Limits(), settings.max_rows):
        show(f"warning: {warning}\n")
    with run_folder() as folder:
        repository = render_repository(opened, folder / "repository", settings=settings, limits=limits, engines=engines)
        server = TritonServer(
            repository,
            ports,
            folder / "tritonserver.log",
            host=host,
            start_timeout_s=start_timeout_s,
            opens_admin_apis=opens_admin_apis,
        )
        with server:
            wait_until_ready(server, checkpoint)
            yield server


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """A temporary folder of one run. If the server or the gateway failed, their logs stay, and the error says where."""
    folder = Path(tempfile.mkdtemp(prefix="qwen_image_"))
    keeps_logs = False
    try:
        yield folder
    except ServerFailed as error:
        keeps_logs = any(folder.glob("*.log"))
        raise ServerFailed(f"{error}\nthe logs are in {folder}" if keeps_logs else str(error)) from error
    finally:
        if keeps_logs:
            shutil.rmtree(folder / "repository", ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def wait_until_ready(server: TritonServer, checkpoint: Path) -> None:
    show(f"starting tritonserver over {checkpoint} (log: {server.log_path})\n")
    assert server.process is not None
    loading = Loading(server.repository, checkpoint, server.log_path, server.process.pid)
    progress = Progress(loading.describe)
    seconds = server.wait_until_ready(progress=progress.waited)
    progress.end(f"ready after {seconds:.1f} s")


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway's process, and where it is reached from this machine: http://host:port."""

    url: str
    process: subprocess.Popen[bytes]
    log_path: Path

    def check_alive(self) -> None:
        """ServerFailed with the end of its log if it has ended."""
        if self.process.poll() is not None:
            tail = self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            raise ServerFailed(f"the gateway ended with code {self.process.returncode}:\n{tail}")

    def wait_until_alive(self) -> None:
        """ServerFailed if it ends instead."""
        while True:
            self.check_alive()
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except urllib.error.URLError:
                time.sleep(0.1)


@contextlib.contextmanager
def running_gateway(
    server: TritonServer, port: int | None = None, *, host: str = "127.0.0.1", options: Sequence[str] = ()
) -> Iterator[RunningGateway]:
    """A gateway over a ready server, with options of its own; without a port on a free one.

    Its log lies beside the server's.
    """
    port = Ports.free().http if port is None else port
    log_path = server.log_path.with_name("gateway.log")
    command = [
        *("setpriv", "--pdeathsig", "TERM"),
        *(sys.executable, "-P", "-m", "qwen_image_gateway"),  # -P: nothing is imported from the working directory
        *("--url", server.grpc_url, "--host", host, "--port", str(port)),
        *options,
    ]
    with (
        log_path.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True) as process,
    ):
        gateway = RunningGateway(f"http://{local_address(host)}:{port}", process, log_path)
        try:
            gateway.wait_until_alive()
            yield gateway
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(GATEWAY_EXIT_S)
