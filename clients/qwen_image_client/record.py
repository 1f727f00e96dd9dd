"""A recipe's JSON, read and checked: the file that carries it may come from anywhere."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from qwen_image_client.call import Task
from qwen_image_client.errors import InvalidRequest, RecipeError
from qwen_image_client.values import int32, int64, real, reals, text

VERSION = 1


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidRequest(f"{name}={value!r} must be a list of texts")
    return tuple(text(name, item) for item in value)


def _task(name: str, value: object) -> str:
    if value not in get_args(Task):
        raise InvalidRequest(f"{name}={value!r} must be one of {', '.join(get_args(Task))}")
    return str(value)


_CONVERT: Mapping[str, Callable[[str, object], object]] = {
    "prompt": text,
    "seed": int64,
    "num_inference_steps": int32,
    "true_cfg_scale": real,
    "width": int32,
    "height": int32,
    "image_sha256": _texts,
    "task": _task,
    "model": text,
    "request_id": text,
}
_CONVERT_IF_GIVEN: Mapping[str, Callable[[str, object], object]] = {
    "negative_prompt": text,
    "sigmas": reals,
    "requested_num_inference_steps": int32,
    "strength": real,
    "mask_sha256": text,
}


def read_record(json_text: str, needed: Collection[str]) -> dict[str, Any]:
    """The recipe's fields by name; those that aren't `needed` may be missing: earlier versions didn't write them.

    Raises:
        RecipeError: it isn't a recipe, misses a field, has one too many, or a value of the wrong type.
    """
    record = _record(json_text)
    missing = sorted(set(needed) - record.keys())
    unknown = sorted(record.keys() - {*_CONVERT, *_CONVERT_IF_GIVEN})
    if missing or unknown:
        raise RecipeError(f"the recipe's fields don't match: missing {missing}, unknown {unknown}")
    try:
        return {name: _converted(name, value) for name, value in record.items()}
    except InvalidRequest as error:
        raise RecipeError(f"the recipe can't be used: {error}") from error


def _record(json_text: str) -> dict[str, Any]:
    try:
        record = json.loads(json_text)
    except ValueError as error:
        raise RecipeError(f"the recipe is no JSON: {error}") from error
    if not isinstance(record, dict) or record.pop("version", None) != VERSION:
        raise RecipeError(f"the recipe isn't of version {VERSION}, the one this client reads")
    return record


def _converted(name: str, value: object) -> object:
    if name in _CONVERT:
        return _CONVERT[name](name, value)
    return None if value is None else _CONVERT_IF_GIVEN[name](name, value)
