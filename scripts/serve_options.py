"""The options of `scripts/serve`: its own, every setting of the repository, every option of the gateway."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from build.command_line import ENGINES_HELP, checkpoint_parser
from build.options import add_repository_options, chosen_profile, profile_chooser
from qwen_image.launch.tritonserver import START_TIMEOUT_S
from qwen_image_gateway.arguments import read_arguments
from qwen_image_gateway.settings import SettingsError
from scripts.serving import DEMO_CHECKPOINT

GATEWAY_OPTIONS = """With --gateway or --page every option of the gateway, too: --api-keys, --served-model-name (several
times for several names), --max-requests, ...; `qwen-image-gateway --help` lists them."""


def read_options(arguments: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """The options, and those that the gateway takes. SystemExit for wrong ones, before anything is loaded."""
    chooser = profile_chooser()
    parser = checkpoint_parser(
        "Serve a checkpoint until Ctrl-C, and say how to call it.", parents=[chooser], default=DEMO_CHECKPOINT
    )
    parser.epilog = GATEWAY_OPTIONS
    add_gateway_options(parser)
    add_triton_options(parser)
    add_repository_options(parser, chosen_profile(chooser, arguments))
    options, others = parser.parse_known_args(arguments)
    options.gateway |= options.page
    if others and not options.gateway:
        parser.error(f"unrecognized arguments: {' '.join(others)} (options of the gateway need --gateway or --page)")
    if options.host and not options.gateway:
        parser.error("--host is where the gateway listens, and there is no --gateway; for Triton it is --triton-host")
    options.host = options.host or "127.0.0.1"
    given = [*others, *hub_name(options.checkpoint), *(["--page"] if options.page else [])]
    try:
        read_arguments(given)
    except SettingsError as error:
        parser.error(str(error))
    return options, given


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gateway", action="store_true", help="OpenAI's images API, too: docs/gateway.md")
    parser.add_argument("--page", action="store_true", help="the gateway with a page to play on: docs/page.md")
    parser.add_argument(
        "--host", help="where the gateway listens; 0.0.0.0 for every interface (default: 127.0.0.1); Triton stays local"
    )
    parser.add_argument("--gateway-port", type=port, default=8080, help="the gateway's; a free one with --http-port 0")


def add_triton_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engines", type=Path, help=ENGINES_HELP)
    parser.add_argument(
        "--triton-host",
        default="127.0.0.1",
        help="where Triton itself listens, which asks nobody for a key: docs/operations.md, Who may reach Triton",
    )
    parser.add_argument("--http-port", type=port_or_zero, default=8000, help="Triton's; 0: free ports for everything")
    parser.add_argument("--grpc-port", type=port, default=8001, help="Triton's")
    parser.add_argument("--metrics-port", type=port, default=8002, help="Triton's")
    parser.add_argument(
        "--start-timeout-s", type=seconds, default=START_TIMEOUT_S, help="how long models may load, in seconds"
    )
    parser.add_argument(
        "--open-admin-apis",
        action="store_true",
        help="let every caller of Triton use shared memory, change traces and logs, and unload models: callers can "
        "then read each other's requests and end the server",
    )


def port(text: str) -> int:
    return _number(text, 1, 2**16 - 1)


def port_or_zero(text: str) -> int:
    return _number(text, 0, 2**16 - 1)


def seconds(text: str) -> int:
    return _number(text, 1, 10**6)


def _number(text: str, lowest: int, highest: int) -> int:
    if not (text.isdecimal() and lowest <= int(text) <= highest):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {lowest} to {highest}")
    return int(text)


def hub_name(checkpoint: str | Path) -> Sequence[str]:
    """What callers of other servers name the model; a folder here is nobody's business."""
    return () if Path(checkpoint).is_dir() else ("--served-model-name", str(checkpoint))
