"""The command line's arguments. An option left out is None, and then the server's default holds."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from qwen_image_client.address import Protocol
from qwen_image_client.cli.options import add_connection, add_edited, add_image, add_output, add_start
from qwen_image_client.client import Client
from qwen_image_client.guidance import OnOff
from qwen_image_client.version import VERSION

_EXIT_CODES = "exit codes: 0 done, 1 the server failed or isn't there, 2 wrong usage or values, 130 interrupted"


class Arguments(argparse.Namespace):
    """One parsed command line. What a command has no option for is as if left out."""

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
    default_guidance: OnOff
    seed: int | None
    sigmas: tuple[float, ...] | None
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
    """Reads a command line; on a wrong one says why and exits with 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="qwen-image", description="Make images with a Qwen-Image server.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    generate = _command(commands, "generate", "make images from a prompt, and from a picture if you like")
    edit = _command(commands, "edit", "change pictures as a prompt says (needs an edit checkpoint)")
    for command, add_pictures in ((generate, add_start), (edit, add_edited)):
        add_image(command)
        add_pictures(command)
        add_output(command)
    cancel = _command(commands, "cancel", "end a request by its id")
    cancel.add_argument("request_id", metavar="REQUEST_ID", help="as `generate` and `edit` print it")
    ready = _command(commands, "ready", "ask whether the server is ready")
    ready.add_argument("--wait", type=float, metavar="SECONDS", help="wait for it, at most this long")
    for command in commands.choices.values():
        add_connection(command)
    arguments = parser.parse_args(argv, Arguments())
    wrong = _wrong_together(arguments) if arguments.command in ("generate", "edit") else None
    if wrong:
        commands.choices[arguments.command].error(wrong)
    return arguments


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=help_text, epilog=_EXIT_CODES)


def _wrong_together(arguments: Arguments) -> str | None:
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
