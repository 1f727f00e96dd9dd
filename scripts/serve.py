"""Serve a checkpoint until Ctrl-C, and say how to call it."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from qwen_image.checkpoint import LoadFormat
from qwen_image.errors import QwenImageError
from qwen_image.serving.tritonserver import Ports, TritonServer
from scripts.serving import RunningGateway, checkpoint_folder, running_gateway, running_server, show

PAINTS = """
Command line   .venv/bin/qwen-image generate "a red circle above a blue square" --url {grpc}
curl           clients/examples/curl.sh {http} picture.png
tritonclient   python clients/examples/tritonclient_grpc.py {grpc} picture.png
               python clients/examples/tritonclient_http.py {http} picture.png
"""
EDITS = """
Command line   .venv/bin/qwen-image edit "make the circle blue" --image picture.png --url {grpc}
tritonclient   python clients/examples/edit.py {grpc} edited.png picture.png
"""
GATEWAY = """OpenAI client  OpenAI(base_url="{gateway}/v1", api_key="none").images.{call}
"""
PAGE = """Page           {gateway}/page
"""
ANYHOW = """Metrics        {metrics}
Models         http://{http}/v2/models/{model} (metadata: every input and output)

Ctrl-C stops the server.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--checkpoint", help="a folder in the diffusers layout or a Hugging Face id; the demo's if left out"
    )
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument(
        "--load-format",
        type=LoadFormat,
        choices=list(LoadFormat),
        default=LoadFormat.AUTO,
        help="dummy: random weights of the checkpoint's dimensions, no files of weights are read",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0 for every interface")
    parser.add_argument("--http-port", type=int, default=8000, help="0 picks free ports for all three")
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--metrics-port", type=int, default=8002)
    parser.add_argument("--gateway", action="store_true", help="OpenAI's images API, too: docs/gateway.md")
    parser.add_argument("--page", action="store_true", help="the gateway with a page to play on: docs/page.md")
    parser.add_argument("--gateway-port", type=int, default=8080, help="a free one with --http-port 0")
    options = parser.parse_args()
    ports = Ports(options.http_port, options.grpc_port, options.metrics_port) if options.http_port else Ports.free()
    gateway_port = options.gateway_port if options.http_port else None
    try:
        folder = checkpoint_folder(options.checkpoint, options.revision, options.load_format)
        with (
            running_server(folder, ports, options.host, options.load_format) as server,
            contextlib.ExitStack() as stack,
        ):
            gateway = None
            if options.gateway or options.page:
                gateway = stack.enter_context(
                    running_gateway(server, gateway_port, with_page=options.page, model_name=hub_id(options.checkpoint))
                )
            asked = end_asked_for()  # before anybody is told that Ctrl-C stops it
            print(how_to_call(server, gateway, with_page=options.page), flush=True)
            return wait_for_end(server, gateway, asked)
    except QwenImageError as error:
        show(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def hub_id(checkpoint: str | None) -> str | None:
    """What callers of other servers name the model; a folder here is nobody's business."""
    return None if checkpoint is None or Path(checkpoint).is_dir() else checkpoint


def how_to_call(server: TritonServer, gateway: RunningGateway | None, *, with_page: bool) -> str:
    edits = (server.repository / "qwen_image_edit").is_dir()
    words = (EDITS if edits else PAINTS) + (GATEWAY if gateway else "") + (PAGE if with_page else "") + ANYHOW
    return words.format(
        http=server.http_url,
        grpc=server.grpc_url,
        metrics=server.metrics_url,
        model="qwen_image_edit" if edits else "qwen_image",
        gateway=gateway.url if gateway else None,
        call='edit(image=open("picture.png", "rb"), prompt="...")' if edits else 'generate(prompt="a red circle")',
    )


def end_asked_for() -> threading.Event:
    """Set by Ctrl-C or SIGTERM from now on."""
    asked = threading.Event()

    def ask(signal_number: int, frame: FrameType | None) -> None:
        asked.set()

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return asked


def wait_for_end(server: TritonServer, gateway: RunningGateway | None, asked: threading.Event) -> int:
    """Until it is asked for (0), or until the server or the gateway ends by itself (1)."""
    while not asked.wait(0.5):
        if server.process is not None and server.process.poll() is not None:
            show(f"tritonserver ended with code {server.process.returncode}:\n{server.log_tail()}\n")
            return 1
        if gateway is not None and gateway.process.poll() is not None:
            show(f"the gateway ended with code {gateway.process.returncode}:\n{gateway.log_path.read_text()}\n")
            return 1
    show("stopping: images in flight are finished first\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
