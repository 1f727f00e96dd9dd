"""What FastAPI can't tell by itself for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qwen_image_gateway.answers import ErrorBody
from qwen_image_gateway.chat import chat_schema
from qwen_image_gateway.fields import EditFields, Fields
from qwen_image_gateway.observing import REQUEST_ID, REQUEST_ID_PATTERN

_WORDS = {
    400: "A field isn't allowed; the message says which, and what is.",
    401: "No API key, or none that is known.",
    404: "The model isn't served.",
    408: "The body didn't come in time.",
    422: "The field is one of the API's, and the model that is served can't do what it says.",
    413: "The body or a picture is too large.",
    415: "The body is compressed.",
    429: "As many requests as are taken are in work; Retry-After says when to try again.",
    502: "Triton failed.",
    503: "Triton isn't ready.",
    504: "The picture wasn't done in time.",
}
_OWN_422 = "HTTPValidationError"


def _body(**content: dict[str, Any]) -> dict[str, Any]:
    """A body as OpenAPI's document tells of it, by content type."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": each} for kind, each in content.items()}}}


def _edit_form_schema() -> dict[str, Any]:
    """The form's schema: its texts, and its files. A form has no null."""
    schema = EditFields.model_json_schema()
    for field in schema["properties"].values():
        for choice in field.pop("anyOf", ()):
            if choice.get("type") != "null":
                field.update(choice)
        field.pop("default", None)
    picture = {"type": "string", "format": "binary"}
    return _with_pictures(schema, picture, ("image", "image[]"))


def _edit_json_schema() -> dict[str, Any]:
    url = {"type": "string", "description": "A data URL: nothing is fetched from elsewhere."}
    nested = {"type": "object", "properties": {"image_url": url}, "required": ["image_url"]}
    picture = {"anyOf": [url, {**nested, "additionalProperties": False}]}
    return _with_pictures(EditFields.model_json_schema(), picture, ("image", "images"))


def _with_pictures(schema: dict[str, Any], picture: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    pictures = {"type": "array", "items": picture, "minItems": 1, "maxItems": 16}
    schema["properties"] |= {**dict.fromkeys(names, pictures), "mask": picture}
    schema["anyOf"] = [{"required": [name]} for name in names]
    return schema


GENERATION_BODY = _body(**{"application/json": Fields.model_json_schema()})
CHAT_BODY = _body(**{"application/json": chat_schema()})
EDIT_BODY = _body(**{"multipart/form-data": _edit_form_schema(), "application/json": _edit_json_schema()})
PICTURES_OR_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The pictures; with stream=true the events.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route answers."""
    return {status: {"model": ErrorBody, "description": _WORDS[status]} for status in statuses}


def completed(document: dict[str, Any], *, has_keys: bool) -> dict[str, Any]:
    """The document as it is meant: FastAPI's own 422 is never answered, every request may bring an id, and keys are
    asked for."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if _OWN_422 in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            _add_errors(operation["responses"], has_keys=has_keys)
            operation.setdefault("parameters", []).append(_ID_PARAMETER)
            if has_keys and not path.startswith("/health"):
                operation["security"] = [{"key": []}]
    for unused in (_OWN_422, "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(unused, None)
    if has_keys:
        document.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


_ID_PARAMETER = {
    "name": REQUEST_ID,
    "in": "header",
    "required": False,
    "description": "Comes back in the answer, and stands in Triton's log.",
    "schema": {"type": "string", "pattern": f"^{REQUEST_ID_PATTERN}$"},
}


def _add_errors(responses: dict[str, Any], *, has_keys: bool) -> None:
    """400 is for an id that isn't allowed, too."""
    reference = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    responses.setdefault("400", {"description": _WORDS[400], "content": reference})
    if not has_keys:
        responses.pop("401", None)
