"""The OpenAPI document: bodies and errors that FastAPI can't derive by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from qwen_image_gateway.middleware.request_log import REQUEST_ID, REQUEST_ID_PATTERN
from qwen_image_gateway.requests.bodies import FORM_TYPE, JSON_TYPE
from qwen_image_gateway.requests.chat import MESSAGES, TEXT_MODEL_FIELDS
from qwen_image_gateway.responses import ErrorBody
from qwen_image_gateway.schemas import HEALTH_PATHS, NO_EFFECT, EditFields, Fields
from qwen_image_gateway.settings import GatewaySettings

_DESCRIPTIONS = {
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
_FASTAPI_422 = "HTTPValidationError"
_MAX_IMAGES = 16


def document_app(app: FastAPI, settings: GatewaySettings) -> None:
    """Makes the application's document complete."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            guidance = f"Guidance is {settings.default_guidance} where a request sends no negative prompt and no scale."
            document = get_openapi(title=app.title, version=app.version, description=guidance, routes=app.routes)
            app.openapi_schema = _complete(document, has_keys=settings.api_keys is not None)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, as FastAPI's `responses`."""
    return {status: {"model": ErrorBody, "description": _DESCRIPTIONS[status]} for status in statuses}


def _request_body(**content: dict[str, Any]) -> dict[str, Any]:
    """A body as the document describes it, by content type."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": each} for kind, each in content.items()}}}


def _edit_form_schema() -> dict[str, Any]:
    """The form's schema, texts and files. A form has no null."""
    schema = EditFields.model_json_schema()
    for field in schema["properties"].values():
        for choice in field.pop("anyOf", ()):
            if choice.get("type") != "null":
                field.update(choice)
        field.pop("default", None)
    image = {"type": "string", "format": "binary"}
    return _add_images(schema, image, ("image", "image[]"))


def _edit_json_schema() -> dict[str, Any]:
    url = {"type": "string", "description": "A data URL: nothing is fetched from elsewhere."}
    nested = {"type": "object", "properties": {"image_url": url}, "required": ["image_url"]}
    image = {"anyOf": [url, {**nested, "additionalProperties": False}]}
    return _add_images(EditFields.model_json_schema(), image, ("image", "images"))


def _add_images(schema: dict[str, Any], image: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    images = {"type": "array", "items": image, "minItems": 1, "maxItems": _MAX_IMAGES}
    schema["properties"] |= {**dict.fromkeys(names, images), "mask": image}
    schema["anyOf"] = [{"required": [name]} for name in names]
    return schema


def _chat_schema() -> dict[str, Any]:
    """The fields of the images routes, with a message in place of the prompt."""
    schema = EditFields.model_json_schema()
    del schema["properties"]["prompt"]
    schema["properties"] |= {
        MESSAGES: {"type": "array", "items": _message_schema(), "minItems": 1, "maxItems": 1},
        "extra_body": {"type": "object", "description": "Fields, as some clients nest them."},
        **{name: {"description": NO_EFFECT} for name in TEXT_MODEL_FIELDS},
        **{name: {"type": "integer"} for name in ("width", "height", "num_outputs_per_prompt")},
    }
    schema["required"] = [MESSAGES]
    return schema


def _message_schema() -> dict[str, Any]:
    url = _object_schema(url={"type": "string"})
    text_part = _object_schema(type={"const": "text"}, text={"type": "string"})
    image_part = _object_schema(type={"const": "image_url"}, image_url=url)
    content = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [text_part, image_part]}}]}
    return _object_schema(role={"const": "user"}, content=content)


def _object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object that has all of these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _event_schema() -> dict[str, Any]:
    """One event of a stream: its fields."""
    text = {"type": "string"}
    return {"type": "object", "properties": {"event": text, "data": text}, "required": ["data"]}


GENERATION_BODY = _request_body(**{JSON_TYPE: Fields.model_json_schema()})
CHAT_BODY = _request_body(**{JSON_TYPE: _chat_schema()})
EDIT_BODY = _request_body(**{FORM_TYPE: _edit_form_schema(), JSON_TYPE: _edit_json_schema()})
IMAGES_OR_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The pictures; with stream=true the events.",
        "content": {"text/event-stream": {"schema": _event_schema()}},
    }
}
_ID_PARAMETER = {
    "name": REQUEST_ID,
    "in": "header",
    "required": False,
    "description": "Comes back in the answer, and stands in Triton's log.",
    "schema": {"type": "string", "pattern": f"^{REQUEST_ID_PATTERN}$"},
}


def _complete(document: dict[str, Any], *, has_keys: bool) -> dict[str, Any]:
    """Removes FastAPI's own 422, which is never answered; adds the request id, and keys where they are needed."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if _FASTAPI_422 in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            _adapt_errors(operation["responses"], has_keys=has_keys)
            operation.setdefault("parameters", []).append(_ID_PARAMETER)
            if has_keys and path not in HEALTH_PATHS:
                operation["security"] = [{"key": []}]
    for unused in (_FASTAPI_422, "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(unused, None)
    if has_keys:
        document.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


def _adapt_errors(responses: dict[str, Any], *, has_keys: bool) -> None:
    """Every route answers 400 to a wrong request id; without keys none answers 401."""
    reference = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    responses.setdefault("400", {"description": _DESCRIPTIONS[400], "content": reference})
    if not has_keys:
        responses.pop("401", None)
