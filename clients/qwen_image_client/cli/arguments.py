"""The command line's arguments. An option left out is None, and then the server's default holds."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from qwen_image_client.address import Protocol
from qwen_image_client.client import Client
from qwen_image_client.settings import DEFAULT_TIMEOUT_S

_URL_VARIABLE = "QWEN_IMAGE_URL"
_EXIT_CODES = "exit codes: 0 done, 1 the server failed or isn't there, 2 wrong usage or values, 130 interrupted"


class Arguments(argparse.Namespace):
    """One parsed command line."""

    command: str
    url: str
    protocol: Protocol | None
    timeout: float
    prompt: str | None
    negative_prompt: str | None
    width: int | None
    height: int | None
    num_inference_steps: int | None
    true_cfg_scale: float | None
    seed: int | None
    sigmas: tuple[float, ...] | None
    num_images: int
    output: str
    from_image: Path | None
    no_preview: bool
    quiet: bool
    request_id: str | None
    wait: float | None

    def client(self) -> Client:
        """A client for the server that the arguments name."""
        return Client(self.url, protocol=self.protocol, timeout_s=self.timeout)


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Reads a command line; on a wrong one says why and exits with 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="qwen-image", description="Make images with a Qwen-Image server.", epilog=_EXIT_CODES
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_generate(commands.add_parser("generate", help="make images from a prompt", epilog=_EXIT_CODES))
    cancel = commands.add_parser("cancel", help="end a request by its id", epilog=_EXIT_CODES)
    cancel.add_argument("request_id", metavar="REQUEST_ID", help="as `generate` prints it")
    _add_connection(cancel)
    ready = commands.add_parser("ready", help="ask whether the server is ready", epilog=_EXIT_CODES)
    ready.add_argument("--wait", type=float, metavar="SECONDS", help="wait for it, at most this long")
    _add_connection(ready)
    arguments = parser.parse_args(argv, Arguments())
    if arguments.command == "generate" and arguments.prompt is None and arguments.from_image is None:
        parser.error("generate needs a PROMPT or --from-image")
    return arguments


def _add_connection(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("server")
    options.add_argument(
        "--url",
        default=os.environ.get(_URL_VARIABLE, "localhost"),
        help=f"host:port, with a scheme before it if you like: grpc, grpcs, http, https "
        f"(default: ${_URL_VARIABLE}, else localhost and Triton's own port)",
    )
    options.add_argument("--protocol", choices=("grpc", "http"), help="default: the url's scheme, else grpc")
    options.add_argument(
        "--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS", help="default: %(default)g"
    )


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to paint")
    image = parser.add_argument_group("image", "what is left out takes the server's default")
    image.add_argument("--negative-prompt", metavar="TEXT", help="what to steer away from; turns guidance on")
    image.add_argument("--width", type=int, metavar="PIXELS")
    image.add_argument("--height", type=int, metavar="PIXELS")
    image.add_argument("--num-inference-steps", type=int, metavar="N")
    image.add_argument("--true-cfg-scale", type=float, metavar="X", help="strength of the guidance")
    image.add_argument("--seed", type=int, metavar="N", help="several images take N, N+1, ...")
    image.add_argument("--sigmas", type=_numbers, metavar="X,X,...", help="noise levels, one a step")
    image.add_argument("--num-images", type=int, default=1, metavar="N", help="default: %(default)s")
    image.add_argument(
        "--from-image", type=Path, metavar="FILE", help="run the recipe in this PNG again; other options change it"
    )
    files = parser.add_argument_group("output")
    files.add_argument(
        "--output",
        default="{prompt}-seed{seed}.png",
        metavar="PATTERN",
        help="a folder, or a file's name in which {prompt}, {seed} and {index} are filled in "
        "(default: %(default)s); no file is overwritten",
    )
    files.add_argument("--no-preview", action="store_true", help="no progress by step")
    files.add_argument("--quiet", action="store_true", help="no progress, only errors")
    _add_connection(parser)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a list of numbers like 1.0,0.75,0.5") from error
