"""What was wrong with a request's fields, in words: the field, what arrived, what is allowed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qwen_image_gateway.errors import ApiError, invalid

_SHOWN = 60  # characters of a value that isn't allowed
_WHY = {
    "background": "pictures have no transparency",
    "size": "the text is WIDTHxHEIGHT or auto",
}
_BODY = ("body", "query", "path")


def error_from_validation(errors: Sequence[Any]) -> ApiError:
    """The error of the first thing that is wrong."""
    first = errors[0]
    param = ".".join(str(part) for part in first["loc"] if part not in _BODY) or None
    match first["type"]:
        case "missing":
            return invalid(f"{param} is missing", param, "missing_field")
        case "extra_forbidden":
            return invalid(f"{param} is no field that is known here", param, "unknown_field")
        case _:
            return invalid(_words(param, first), param)


def _words(param: str | None, error: Any) -> str:
    value = repr(error["input"])
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    why = f" ({_WHY[param]})" if param in _WHY else ""
    return f"{param}={shown}: {error['msg']}{why}"
