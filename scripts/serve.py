"""Serve a checkpoint until Ctrl-C, and say how to call it."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from build.compiled import find_manifests
from build.options import picked
from build.settings import PROFILES, Settings
from qwen_image.checkpoint import resolve_checkpoint
from qwen_image.errors import QwenImageError, ServerFailed
from qwen_image.launch.ports import Ports, check_ports
from qwen_image.launch.tritonserver import TritonServer
from qwen_image_contract import Limits
from scripts.how_to_call import how_to_call
from scripts.progress import show
from scripts.serve_options import read_options
from scripts.serving import RunningGateway, running_gateway, running_server


def main(arguments: Sequence[str] | None = None) -> int:
    options, gateway_options = read_options(arguments)
    ports = Ports(options.http_port, options.grpc_port, options.metrics_port) if options.http_port else Ports.free()
    gateway_port = options.gateway_port if options.http_port else Ports.free().http
    try:
        settings = picked(PROFILES[options.profile], options)
        check(options, ports, gateway_port)
        reads_files = settings.load_format.reads_files
        folder = resolve_checkpoint(options.checkpoint, options.revision, needs_weights=reads_files)
        with started_server(options, folder, ports, settings) as server, contextlib.ExitStack() as stack:
            gateway = None
            if options.gateway:
                started = running_gateway(server, gateway_port, host=options.host, options=gateway_options)
                gateway = stack.enter_context(started)
            asked = end_asked_for()  # before anybody is told that Ctrl-C stops it
            print(how_to_call(server, gateway.url if gateway else None, with_page=options.page), flush=True)
            wait_for_end(server, gateway, asked)
            return 0
    except QwenImageError as error:
        show(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def check(options: argparse.Namespace, ports: Ports, gateway_port: int) -> None:
    """ServerFailed names every port that is taken."""
    addresses = {option: (options.triton_host, port) for option, port in ports.named().items()}
    if options.gateway:
        addresses["--gateway-port"] = (options.host, gateway_port)
    check_ports(addresses)


def started_server(
    options: argparse.Namespace, folder: Path, ports: Ports, settings: Settings
) -> contextlib.AbstractContextManager[TritonServer]:
    return running_server(
        folder,
        ports,
        host=options.triton_host,
        start_timeout_s=options.start_timeout_s,
        opens_admin_apis=options.open_admin_apis,
        settings=settings,
        limits=picked(Limits, options),
        engines=() if options.engines is None else find_manifests(options.engines, settings),
    )


def end_asked_for() -> threading.Event:
    """Set by Ctrl-C or SIGTERM from now on."""
    asked = threading.Event()

    def ask(signal_number: int, frame: FrameType | None) -> None:
        asked.set()

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return asked


def wait_for_end(server: TritonServer, gateway: RunningGateway | None, asked: threading.Event) -> None:
    """Until it is asked for. ServerFailed if the server or the gateway ends by itself."""
    while not asked.wait(0.5):
        if server.process is not None and server.process.poll() is not None:
            raise ServerFailed(f"tritonserver ended with code {server.process.returncode}:\n{server.log_tail()}")
        if gateway is not None:
            gateway.check_alive()
    show("stopping: images in flight are finished first\n")


if __name__ == "__main__":
    sys.exit(main())
