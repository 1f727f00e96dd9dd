"""What source text says, for code that can only be imported inside Triton."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVING = ROOT / "qwen_image" / "serving"
MODELS = ROOT / "model_repository"
READ_BY = {  # members of ModelSettings, and what they read
    "device": {"device"},
    "load_format": {"load_format"},
    "checkpoint": {"checkpoint", "load_format"},
}


def function(path: Path, name: str) -> ast.AST:
    """The function or method of this name."""
    return next(
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name
    )


def attributes(path: Path, name: str) -> set[str]:
    """Those that a dataclass of this name declares."""
    (found,) = (node for node in ast.walk(ast.parse(path.read_text())) if getattr(node, "name", None) == name)
    return {node.target.id for node in ast.walk(found) if isinstance(node, ast.AnnAssign)}


def constants(tree: ast.AST) -> set[str]:
    """Every string that is written out in it."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def keys_of(tree: ast.AST, variable: str) -> set[str]:
    """The keys that a dictionary variable gets, in its literal and one by one."""
    return {key for key in _keys(tree, variable) if isinstance(key, str)}


def _keys(tree: ast.AST, variable: str) -> Iterator[object]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == variable for target in targets):
                yield from (key.value for key in node.value.keys if isinstance(key, ast.Constant))
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == variable
            and isinstance(node.slice, ast.Constant)
        ):
            yield node.slice.value


def settings_read(path: Path) -> set[str]:
    """The parameters of its config.pbtxt that a model reads: settings["name"], settings.integer("name"), or by name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "settings":
            found |= constants(node.slice)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "settings"
        ):
            found |= {name for argument in node.args for name in constants(argument)}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings":
            found |= READ_BY.get(node.attr, set())
    return found


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    """The calls of a function or method of this name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", None), getattr(node.func, "attr", None)):
            yield node
