"""What users of the client write: the SDK's public names with their signatures, and the command line's help.

After a wanted change `.venv/bin/python -m tests.client.public_api` stores it anew.
"""

import dataclasses
import inspect
import io
import json
import os
import re
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, is_typeddict
from unittest.mock import patch

import qwen_image_client
import qwen_image_client.integration
from qwen_image_client.cli import main

STORED_API = Path(__file__).with_name("public_api.json")
STORED_HELP = Path(__file__).with_name("command_line_help.txt")
_COMMANDS = ((), ("generate",), ("edit",), ("cancel",), ("ready",))


def public_api() -> str:
    """The public names as JSON, by module."""
    modules = (qwen_image_client, qwen_image_client.integration)
    return json.dumps({module.__name__: _names(module) for module in modules}, indent=2) + "\n"


def command_line_help() -> str:
    """The help of every command, 120 columns wide."""
    text = io.StringIO()
    with redirect_stdout(text), patch.dict(os.environ, COLUMNS="120"):
        for command in _COMMANDS:
            with suppress(SystemExit):
                main([*command, "--help"])
    return text.getvalue()


def _names(module: ModuleType) -> dict[str, Any]:
    return {name: _described(getattr(module, name)) for name in sorted(module.__all__)}


def _described(value: object) -> object:
    if not inspect.isclass(value):
        return _text(inspect.signature(value)) if inspect.isfunction(value) else _text(value)
    if is_typeddict(value):
        keys = {name: _text(kind) for name, kind in value.__annotations__.items()}
        return {"keys": keys, "required": sorted(value.__required_keys__)}
    described: dict[str, Any] = {
        "bases": [base.__name__ for base in value.__mro__[1:-1]],
        "signature": _text(inspect.signature(value)),
        "members": {name: _member(member) for name, member in _members(value).items()},
    }
    if dataclasses.is_dataclass(value):
        described["fields"] = {field.name: _text(field.type) for field in dataclasses.fields(value)}
        described["frozen"] = value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return described


def _members(kind: type) -> Mapping[str, object]:
    members: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("qwen_image_client"):
            members.update((name, inspect.getattr_static(kind, name)) for name in vars(base))
    fields = getattr(kind, "__dataclass_fields__", {})
    return {name: members[name] for name in sorted(members) if not name.startswith("_") and name not in fields}


def _member(member: object) -> str:
    if isinstance(member, property):
        return f"property {_text(inspect.signature(member.fget))}"  # type: ignore[arg-type]
    if isinstance(member, classmethod):
        return f"classmethod {_text(inspect.signature(member.__func__))}"
    if inspect.isfunction(member):
        return f"{'async ' if inspect.iscoroutinefunction(member) else ''}def {_text(inspect.signature(member))}"
    return _text(member)


def _text(value: object) -> str:
    """Without the modules that names live in, which aren't public and differ between versions of Python."""
    text = str(value) if isinstance(value, inspect.Signature) else inspect.formatannotation(value)
    text = re.sub(r"\b(qwen_image_client|pathlib|typing|collections)\.([a-z_]+\.)*", "", text)
    return re.sub(r"\*<class '(\w+)'>", r"Unpack[\1]", text)


if __name__ == "__main__":
    STORED_API.write_text(public_api())
    STORED_HELP.write_text(command_line_help())
