"""The command line's arguments. An option left out is None, and then the server's default holds."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from qwen_image_client import Client
from qwen_image_client.cli.files import DEFAULT_NAME
from qwen_image_client.cli.inputs import add_input, inputs_with_option
from qwen_image_client.integration import DEFAULT_GUIDANCE, DEFAULT_TIMEOUT_S, ON_OFF, VERSION, OnOff, Protocol
from qwen_image_contract import TASKS

_URL_VARIABLE = "QWEN_IMAGE_URL"
_GUIDANCE_VARIABLE = "QWEN_IMAGE_DEFAULT_GUIDANCE"
_EXIT_CODES = "exit codes: 0 done, 1 the server failed or isn't there, 2 wrong usage or values, 130 interrupted"


class Arguments(argparse.Namespace):
    """One parsed command line: the options that the commands read by name, and those of the contract's inputs.

    What a command has no option for is as if left out.
    """

    command: str
    url: str
    protocol: Protocol | None
    timeout: float
    prompt: str | None
    default_guidance: OnOff
    num_images: int
    images: list[Path] | None
    strength: float | None = None
    mask: Path | None = None
    save_mask: Path | None = None
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
    """Reads a command line; on a wrong one prints why and exits with 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="qwen-image", description="Make images with a Qwen-Image server.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    generate = _add_command(commands, "generate", "make images from a prompt, and from a picture if you like")
    edit = _add_command(commands, "edit", "change pictures as a prompt says (needs an edit checkpoint)")
    for command, add_images in ((generate, _add_input_image), (edit, _add_edited_images)):
        _add_image(command)
        add_images(command)
        _add_output(command)
    cancel = _add_command(commands, "cancel", "end a request by its id")
    cancel.add_argument("request_id", metavar="REQUEST_ID", help="as `generate` and `edit` print it")
    ready = _add_command(commands, "ready", "ask whether the server is ready")
    ready.add_argument("--wait", type=float, metavar="SECONDS", help="wait for it, at most this long")
    for command in commands.choices.values():
        _add_connection(command)
    arguments = parser.parse_args(argv, Arguments())
    conflict = _find_conflict(arguments) if arguments.command in ("generate", "edit") else None
    if conflict:
        commands.choices[arguments.command].error(conflict)
    return arguments


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=help_text, epilog=_EXIT_CODES)


def _find_conflict(arguments: Arguments) -> str | None:
    """What is wrong with options that are fine each by itself."""
    if arguments.prompt is None and arguments.from_image is None:
        return f"{arguments.command} needs a PROMPT or --from-image"
    if arguments.command == "edit":
        return None
    if len(arguments.images or ()) > 1:
        return "generate starts from one --image; `qwen-image edit` takes several"
    for option, value in (("--strength", arguments.strength), ("--mask", arguments.mask)):
        if value is not None and not arguments.images:
            return f"{option} needs --image, the picture that it is about"
    if arguments.save_mask is not None and arguments.mask is None:
        return "--save-mask needs --mask"
    return None


def _add_connection(parser: argparse.ArgumentParser) -> None:
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


def _add_image(parser: argparse.ArgumentParser) -> None:
    """What to make, for every command that makes images."""
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to paint, or what to change")
    image = parser.add_argument_group("image", "what is left out takes the server's default")
    for each in inputs_with_option(*TASKS):
        if each.name == "seed":
            _add_default_guidance(image)
        add_input(image, each)
    image.add_argument("--num-images", type=int, default=1, metavar="N", help="default: %(default)s")
    image.add_argument(
        "--from-image",
        type=Path,
        metavar="FILE",
        help="run the recipe in this PNG again; other options change it. The pictures it was made from aren't in it: "
        "give them beside it",
    )


def _add_default_guidance(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--default-guidance",
        type=_read_on_or_off,
        default=os.environ.get(_GUIDANCE_VARIABLE, DEFAULT_GUIDANCE),
        metavar="on|off",
        help="whether to guide, by a blank negative prompt, where neither a negative prompt nor a scale is given "
        f"(default: ${_GUIDANCE_VARIABLE}, else {DEFAULT_GUIDANCE})",
    )


def _add_input_image(parser: argparse.ArgumentParser) -> None:
    """The image that another may start from."""
    start = parser.add_argument_group("picture to start from", "PNG, JPEG or WebP files")
    start.add_argument("--image", dest="images", action="append", type=Path, metavar="FILE")
    for each in inputs_with_option("generate"):
        add_input(start, each)
    start.add_argument("--mask", type=Path, metavar="FILE", help="paint where it is white, keep where it is black")
    start.add_argument(
        "--save-mask", type=Path, metavar="FILE.png", help="write the mask in the image's size; no progress by step"
    )


def _add_edited_images(parser: argparse.ArgumentParser) -> None:
    """The images that an edit looks at."""
    edited = parser.add_argument_group("pictures", "PNG, JPEG or WebP files")
    edited.add_argument(
        "--image", dest="images", action="append", type=Path, required=True, metavar="FILE", help="several if repeated"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Where images go, and what is printed meanwhile."""
    files = parser.add_argument_group("output")
    files.add_argument(
        "--output",
        default=DEFAULT_NAME,
        metavar="PATTERN",
        help="a folder, or a file's name in which {prompt}, {seed} and {index} are filled in "
        "(default: %(default)s); no file is overwritten",
    )
    files.add_argument("--no-preview", action="store_true", help="no progress by step")
    files.add_argument("--quiet", action="store_true", help="no progress, only errors")


def _read_on_or_off(text: str) -> OnOff:
    """Choices of argparse's aren't checked in a default, and this one may come from the environment."""
    for allowed in ON_OFF:
        if text == allowed:
            return allowed
    raise argparse.ArgumentTypeError(f"{text!r} must be on or off")
