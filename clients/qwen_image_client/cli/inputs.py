"""The options that are made from the contract's inputs: `--true-cfg-scale` from `true_cfg_scale`, and so on."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from qwen_image_contract import ROW_INPUTS, Input, Task

_READERS: Mapping[str, Callable[[str], object]] = {"BYTES": str, "INT32": int, "INT64": int, "FP32": float}
_FIRST = ("negative_prompt", "width")  # width comes before height, as people say sizes


def inputs_with_option(*tasks: Task) -> list[Input]:
    """The inputs of exactly these tasks that have an option here, in the help's order."""
    found = [each for each in ROW_INPUTS if each.tasks == tasks and each.metavar is not None]
    return sorted(found, key=lambda each: each.name not in _FIRST)


def add_input(group: "argparse._ArgumentGroup", each: Input) -> None:
    """Adds the input's option."""
    group.add_argument(
        f"--{each.name.replace('_', '-')}",
        type=_READERS[each.datatype] if each.elements == 1 else _read_numbers,
        metavar=each.metavar,
        help=(each.about if each.option_text is None else each.option_text) or None,
    )


def read_inputs(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """The values of the inputs that were given, by name. Commands are named as tasks; images are read elsewhere."""
    names = [each.name for each in ROW_INPUTS if command in each.tasks and not each.is_image]
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def _read_numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a list of numbers like 1.0,0.75,0.5") from error
