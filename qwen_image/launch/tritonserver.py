"""Starts the tritonserver binary that the nvidia-pytriton wheel brings, and stops it again.

On NVIDIA's images tritonserver is on PATH and needs none of this; docs/operations.md has the plain command.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from qwen_image.errors import ServerFailed
from qwen_image.launch.ports import Ports, check_ports, listens_on, local_address
from qwen_image.launch.restricted_apis import closing_options
from qwen_image.request.cancellation import sockets_folder
from qwen_image.serving.orphans import remove_run

PROBLEM = re.compile(r"^E\d{4} |failed to load|^\w*Error: |Traceback")
START_TIMEOUT_S = 3600  # 57 GB, Qwen-Image's files, at 16 MB/s
SETTLE_S = 1.0  # a request is counted once it reached the sampler, and the count is handed over ten times a second


@dataclass(slots=True)
class TritonServer:
    """One server process over one rendered model repository. A context manager: leaving it stops the server."""

    repository: Path
    ports: Ports
    log_path: Path
    host: str = "127.0.0.1"
    exit_timeout_s: int = 30
    start_timeout_s: int = START_TIMEOUT_S  # of one model's process, and of the whole start
    extra_arguments: tuple[str, ...] = ()
    opens_admin_apis: bool = False  # to every caller: shared memory, trace and log settings, model control
    shm_prefix: str = field(default_factory=lambda: f"qwen_image_{uuid.uuid4().hex[:12]}_")
    process: subprocess.Popen[bytes] | None = None
    log: IO[bytes] | None = None

    @property
    def http_url(self) -> str:
        return f"{local_address(self.host)}:{self.ports.http}"

    @property
    def grpc_url(self) -> str:
        return f"{local_address(self.host)}:{self.ports.grpc}"

    @property
    def metrics_url(self) -> str:
        return f"http://{local_address(self.host)}:{self.ports.metrics}/metrics"

    def __enter__(self) -> TritonServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process and return at once; `wait_until_ready` waits. Its output goes to `log_path`.

        ServerFailed if one of its ports is taken, by whom.
        """
        check_ports({option: (self.host, port) for option, port in self.ports.named().items()})
        self.log = self.log_path.open("wb")
        self.process = subprocess.Popen(
            self.command(),
            env=environment(),
            cwd="/",  # Triton's stubs import from their working directory before they do from anywhere else
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def command(self) -> list[str]:
        return [
            *("setpriv", "--pdeathsig", "TERM"),  # whoever started the server and is killed does not leave it behind
            str(wheel_folder() / "bin" / "tritonserver"),
            f"--model-repository={self.repository.resolve()}",
            f"--backend-directory={backend_folder()}",
            f"--backend-config=python,shm-region-prefix-name={self.shm_prefix}",
            f"--backend-config=python,stub-timeout-seconds={self.start_timeout_s}",
            f"--http-address={self.host}",
            f"--http-port={self.ports.http}",
            f"--grpc-address={self.host}",
            f"--grpc-port={self.ports.grpc}",
            f"--metrics-address={self.host}",
            f"--metrics-port={self.ports.metrics}",
            "--allow-gpu-metrics=false",
            "--disable-auto-complete-config",
            f"--exit-timeout-secs={self.exit_timeout_s}",
            *([] if self.opens_admin_apis else closing_options()),
            *self.extra_arguments,
        ]

    def is_ready(self) -> bool:
        """Whether this process, not another on its port, has every model loaded and warm."""
        if self.process is None or not listens_on(self.process.pid, self.ports.http):
            return False
        try:
            with urllib.request.urlopen(f"http://{self.http_url}/v2/health/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self, progress: Callable[[float], None] | None = None) -> float:
        """Seconds until ready; `progress` gets the seconds so far. ServerFailed if the process ends or time does."""
        assert self.process is not None
        start = time.monotonic()
        while not self.is_ready():
            waited = time.monotonic() - start
            if self.process.poll() is not None:
                raise ServerFailed(f"tritonserver ended with code {self.process.returncode}:\n{self.log_tail()}")
            if waited > self.start_timeout_s:
                raise ServerFailed(f"tritonserver was not ready after {self.start_timeout_s} s:\n{self.log_tail()}")
            if progress is not None:
                progress(waited)
            time.sleep(0.1)
        return time.monotonic() - start

    def log_tail(self, lines: int = 15) -> str:
        """What the log says went wrong, and how it ends."""
        log = self.log_path.read_text(errors="replace").splitlines()
        problems = [line for line in log if PROBLEM.search(line)]
        return "\n".join([*problems[:lines], "...", *log[-lines:]])

    def stop(self) -> int | None:
        """Finish what is in flight, for `exit_timeout_s` at most, then end the process; its exit code.

        The waiting is done here: once tritonserver itself is told to end, it refuses the sampler's calls of `dit`.
        """
        if self.process is None:
            return None
        if self.process.poll() is None:
            self._wait_for_images_in_flight()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self.exit_timeout_s + 15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._remove_what_is_left(self.process.pid)
        if self.log is not None:
            self.log.close()
        return self.process.returncode

    def _remove_what_is_left(self, pid: int) -> None:
        """Of the server of this pid, which has ended: its processes, those that still load among them, and files."""
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        remove_run(sockets_folder(pid))
        for left_over in self.shared_memory_files():
            left_over.unlink(missing_ok=True)

    def _wait_for_images_in_flight(self) -> None:
        busy_at = now = time.monotonic()
        deadline = now + self.exit_timeout_s
        while now - busy_at < SETTLE_S and now < deadline and self.is_ready():
            time.sleep(0.1)
            now = time.monotonic()
            if self.images_in_flight() > 0:
                busy_at = now

    def images_in_flight(self) -> int:
        """Images that the samplers hold now, by the server's own metrics; 0 if it does not answer."""
        try:
            with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, OSError):
            return 0
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith("qwen_image_images_in_flight{"))

    def shared_memory_files(self) -> Iterator[Path]:
        """What the Python backend holds under /dev/shm; after a killed server these files stay behind."""
        return Path("/dev/shm").glob(f"{self.shm_prefix}*")


def wheel_folder() -> Path:
    """Where the wheel keeps tritonserver, found without importing pytriton (which starts things)."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise ServerFailed("the package nvidia-pytriton is not installed: run scripts/setup")
    return Path(spec.origin).parent / "tritonserver"


def backend_folder() -> Path:
    """A backend folder with the stub of this Python's version, made of links beside this environment."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    source = wheel_folder()
    target = Path(sys.prefix) / "share" / "qwen_image" / "backends" / "python"
    target.mkdir(parents=True, exist_ok=True)
    for file in (
        *(source / "backends" / "python").iterdir(),
        source / "python_backend_stubs" / version / "triton_python_backend_stub",
    ):
        link = target / file.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(file)
            file.chmod(file.stat().st_mode | 0o111)
    return target.parent


def libpython_folder() -> Path:
    """The folder of the libpython that belongs to this interpreter; the stub loads it."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    for folder in (
        sysconfig.get_config_var("LIBDIR"),
        Path(sys.base_prefix) / "lib",
        sysconfig.get_config_var("LIBPL"),
    ):
        if folder and (Path(folder) / name).is_file() and name.endswith((".so", ".so.1.0")):
            return Path(folder)
    multiarch = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "")
    if name and (multiarch / name).is_file():
        return multiarch
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise ServerFailed(
        f"this Python has no shared libpython{version}, which Triton's Python backend loads. "
        f"Debian and Ubuntu: apt-get install libpython{version}; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared"
    )


def environment() -> dict[str, str]:
    """What the server and its stubs need to find: their libraries, this Python, this environment's packages."""
    binaries = Path(sys.prefix) / "bin"
    site_packages = Path(sysconfig.get_path("purelib"))
    libraries = [str(wheel_folder().parents[1] / "nvidia_pytriton.libs"), str(libpython_folder())]
    if inherited := os.environ.get("LD_LIBRARY_PATH"):
        libraries.append(inherited)
    return {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}",
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "OMP_WAIT_POLICY": os.environ.get(
            "OMP_WAIT_POLICY", "PASSIVE"
        ),  # several models share the cores: none may spin
        "VIRTUAL_ENV": sys.prefix,
        "PYTHONPATH": os.pathsep.join(map(str, [site_packages, *_inherited_packages()])),
    }


def _inherited_packages() -> list[Path]:
    """Absolute, since the server has another working directory; an empty entry, which would mean that, is none."""
    return [Path(entry).absolute() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
