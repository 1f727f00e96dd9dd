"""Options of a command line from dataclasses of settings: one a field, default and help the field's own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from build.settings import ALLOWED, PROFILES, Settings
from qwen_image.checkpoint import LoadFormat
from qwen_image.dit.precision import Precision
from qwen_image_contract import Limits
from qwen_image_contract.setting import about


def profile_chooser() -> argparse.ArgumentParser:
    """A parent parser, to be read first: the profile has the defaults of the other options."""
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--profile", choices=sorted(PROFILES), default="cpu", help="whose defaults are taken")
    return chooser


def chosen_profile(chooser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> type[Settings]:
    """The settings whose defaults hold, by the command line: this process's if none is given."""
    return PROFILES[chooser.parse_known_args(arguments)[0].profile]


def add_options(parser: argparse.ArgumentParser, settings: type, leave_out: Sequence[str] = ()) -> None:
    """One option a field."""
    group = parser.add_argument_group(settings.__name__)
    for each in (each for each in fields(settings) if each.name not in leave_out):
        option, text = f"--{each.name.replace('_', '-')}", about(settings, each.name).replace("%", "%%")
        if each.name in ALLOWED:
            group.add_argument(option, choices=list(map(str, ALLOWED[each.name])), default=str(each.default), help=text)
        else:
            group.add_argument(option, type=type(each.default), default=each.default, metavar="N", help=text)


def picked(settings: type, options: argparse.Namespace, **given: Any) -> Any:
    """Settings or limits as the options have them, but for those that are given."""
    others = {each.name: getattr(options, each.name) for each in fields(settings) if each.name not in given}
    for name, kind in (("precision", Precision), ("load_format", LoadFormat)):
        if name in others:
            others[name] = kind(others[name])
    return settings(**given, **others)


def add_repository_options(parser: argparse.ArgumentParser, profile: type[Settings]) -> None:
    """Every setting and every limit of a model repository."""
    add_options(parser, profile)
    add_options(parser, Limits)
