"""The options that commands share, each added by one function."""

import argparse
import os
from pathlib import Path

from qwen_image_client.guidance import DEFAULT_GUIDANCE, ON_OFF, OnOff
from qwen_image_client.settings import DEFAULT_TIMEOUT_S

_URL_VARIABLE = "QWEN_IMAGE_URL"
_GUIDANCE_VARIABLE = "QWEN_IMAGE_DEFAULT_GUIDANCE"


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Which server, and how."""
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


def add_image(parser: argparse.ArgumentParser) -> None:
    """What to make, for every command that makes images."""
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to paint, or what to change")
    image = parser.add_argument_group("image", "what is left out takes the server's default")
    image.add_argument("--negative-prompt", metavar="TEXT", help="what to steer away from")
    image.add_argument("--width", type=int, metavar="PIXELS")
    image.add_argument("--height", type=int, metavar="PIXELS")
    image.add_argument("--num-inference-steps", type=int, metavar="N")
    image.add_argument("--true-cfg-scale", type=float, metavar="X", help="strength of the guidance; 1: none")
    image.add_argument(
        "--default-guidance",
        type=_on_or_off,
        default=os.environ.get(_GUIDANCE_VARIABLE, DEFAULT_GUIDANCE),
        metavar="on|off",
        help="whether to guide, by a blank negative prompt, where neither a negative prompt nor a scale is given "
        f"(default: ${_GUIDANCE_VARIABLE}, else {DEFAULT_GUIDANCE})",
    )
    image.add_argument("--seed", type=int, metavar="N", help="several images take N, N+1, ...")
    image.add_argument("--sigmas", type=_numbers, metavar="X,X,...", help="noise levels, one a step")
    image.add_argument("--num-images", type=int, default=1, metavar="N", help="default: %(default)s")
    image.add_argument(
        "--from-image",
        type=Path,
        metavar="FILE",
        help="run the recipe in this PNG again; other options change it. The pictures it was made from aren't in it: "
        "give them beside it",
    )


def add_start(parser: argparse.ArgumentParser) -> None:
    """The picture that an image may start from."""
    start = parser.add_argument_group("picture to start from", "PNG, JPEG or WebP files")
    start.add_argument("--image", dest="images", action="append", type=Path, metavar="FILE")
    start.add_argument("--strength", type=float, metavar="X", help="how much of it may change: above 0, at most 1")
    start.add_argument("--mask", type=Path, metavar="FILE", help="paint where it is white, keep where it is black")
    start.add_argument(
        "--save-mask", type=Path, metavar="FILE.png", help="write the mask in the image's size; no progress by step"
    )


def add_edited(parser: argparse.ArgumentParser) -> None:
    """The pictures that an edit looks at."""
    edited = parser.add_argument_group("pictures", "PNG, JPEG or WebP files")
    edited.add_argument(
        "--image", dest="images", action="append", type=Path, required=True, metavar="FILE", help="several if repeated"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where images go, and what is said meanwhile."""
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


def _on_or_off(text: str) -> OnOff:
    """Choices of argparse's aren't checked in a default, and this one may come from the environment."""
    for allowed in ON_OFF:
        if text == allowed:
            return allowed
    raise argparse.ArgumentTypeError(f"{text!r} must be on or off")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a list of numbers like 1.0,0.75,0.5") from error
