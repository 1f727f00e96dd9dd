"""What the command lines of `build/` share: naming a checkpoint, and ending with a message where it can't be used."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from qwen_image.checkpoint import Checkpoint, LoadFormat, open_checkpoint, resolve_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.errors import QwenImageError
from qwen_image_client.integration import VERSION

CHECKPOINT_HELP = "a folder in the diffusers layout, or a Hugging Face id"
REVISION_HELP = "of a Hugging Face id: a commit hash, or a tag or branch, whose commit is then printed"
ENGINES_HELP = "what build/engines.py built; needed unless --engine is torch"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Says the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_none = action.default is None or action.default is False  # 0 is one
        return action.help if has_none else super()._get_help_string(action)


def checkpoint_parser(
    description: str, parents: Sequence[argparse.ArgumentParser] = (), *, default: Path | None = None
) -> argparse.ArgumentParser:
    """With the options that name a checkpoint, which must be given if there is no default, and `--version`.

    A parent's defaults depend on nothing that follows it.
    """
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=HelpFormatter,
        parents=list(parents),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("--checkpoint", required=default is None, default=default, help=CHECKPOINT_HELP)
    parser.add_argument("--revision", help=REVISION_HELP)
    return parser


def add_precision_option(parser: argparse.ArgumentParser) -> None:
    names = [str(each) for each in Precision]
    parser.add_argument("--precision", choices=names, default=str(Precision.BF16), help="of the transformer's blocks")


@contextmanager
def opened_checkpoint(options: argparse.Namespace) -> Iterator[Checkpoint]:
    """The checkpoint that the options name; with --load-format dummy it may lack its weights.

    SystemExit with the message of any error of ours raised inside.
    """
    try:
        needs_weights = LoadFormat(getattr(options, "load_format", LoadFormat.AUTO)).reads_files
        folder = resolve_checkpoint(options.checkpoint, options.revision, needs_weights=needs_weights)
        yield open_checkpoint(folder, needs_weights=needs_weights)
    except QwenImageError as error:
        raise SystemExit(f"error: {error}") from error
