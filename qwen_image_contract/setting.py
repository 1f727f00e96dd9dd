"""A field of a dataclass of settings that says what it is for: options' help and documents read it there."""

from __future__ import annotations

from dataclasses import field, fields
from typing import TypeVar

Value = TypeVar("Value")
_ABOUT = "about"


def setting(default: Value, about: str) -> Value:
    """The field's default, and what it means, its unit included. For a class body, as dataclasses' `field` is."""
    return field(default=default, metadata={_ABOUT: about})


def about(settings: type, name: str) -> str:
    """What a setting means; a class that only changes a default has it from the class above.

    Raises:
        KeyError: nobody says what it means.
    """
    for each in settings.__mro__[:-1]:
        for known in fields(each):
            if known.name == name and _ABOUT in known.metadata:
                return str(known.metadata[_ABOUT])
    raise KeyError(f"{settings.__name__}.{name} does not say what it is for")
