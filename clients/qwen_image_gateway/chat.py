"""A chat that asks for images: one user message, text and pictures, as vLLM-Omni's clients for Qwen-Image send it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qwen_image_gateway.bodies import validated
from qwen_image_gateway.data_urls import content_of
from qwen_image_gateway.errors import invalid
from qwen_image_gateway.fields import NO_EFFECT, EditFields, Fields

OF_TEXT_MODELS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
    *("modalities", "stop"),
)
MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request: fields as the images routes have them, the prompt among them; EditFields if there are pictures."""

    fields: Fields
    pictures: Sequence[bytes] = field(repr=False)


def chat_request(body: dict[str, Any]) -> ChatRequest:
    """The request in a body.

    Raises:
        ApiError, RequestValidationError: what is wrong with it.
    """
    options = {name: value for name, value in _with_extra_body(body).items() if name not in OF_TEXT_MODELS}
    texts, urls = _only_user_content(options.pop(MESSAGES, None))
    if options.get("stream"):
        raise invalid("stream=true: chat isn't streamed here, /v1/images/generations and /edits are", "stream")
    if "prompt" in options:
        raise invalid("prompt is the user's message in a chat", "prompt")
    pictures = [content_of(MESSAGES, url) for url in urls]
    values = {**_renamed(options), "prompt": "\n".join(texts)}
    fields = validated(EditFields if pictures else Fields, values, strict=True)
    return ChatRequest(fields, pictures)


def _with_extra_body(body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's client puts what is in its `extra_body` beside the other fields; others send it as it is."""
    extra = body.pop("extra_body", None) or {}
    if not isinstance(extra, dict):
        raise invalid(f"extra_body must be an object, and is a {type(extra).__name__}", "extra_body")
    if twice := sorted(extra.keys() & body.keys()):
        raise invalid(f"{twice[0]} is given twice, in extra_body too", twice[0])
    return {**body, **extra}


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    """In the words of the images routes."""
    if "num_outputs_per_prompt" in options:
        if "n" in options:
            raise invalid("n and num_outputs_per_prompt are one field: send one of them", "n")
        options["n"] = options.pop("num_outputs_per_prompt")
    width, height = options.pop("width", None), options.pop("height", None)
    if (width, height) != (None, None):
        if options.get("size") is not None or not (isinstance(width, int) and isinstance(height, int)):
            raise invalid(f"width={width!r}, height={height!r}: send both as numbers, or size alone", "size")
        options["size"] = f"{width}x{height}"
    return options


def _only_user_content(messages: Any) -> tuple[list[str], list[str]]:
    """Texts and URLs of pictures. An image has one prompt: nothing of a longer conversation could be heeded."""
    match messages:
        case [{"role": "user", "content": str(text)}]:
            return [text], []
        case [{"role": "user", "content": list(parts)}]:
            return _texts_and_urls(parts)
        case list() if len(messages) != 1:
            raise invalid(f"{len(messages)} messages: one is taken, from the user, with the whole prompt", MESSAGES)
        case _:
            raise invalid('messages must be [{"role": "user", "content": text or parts}]', MESSAGES)


def _texts_and_urls(parts: Sequence[Any]) -> tuple[list[str], list[str]]:
    texts, urls = [], []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                urls.append(url)
            case _:
                raise invalid(
                    'a part of a message must be {"type": "text", "text": ...} or {"type": "image_url", "image_url": '
                    '{"url": "data:..."}}',
                    MESSAGES,
                )
    return texts, urls


_TEXT = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
_URL = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
_PICTURE = {
    "type": "object",
    "properties": {"type": {"const": "image_url"}, "image_url": _URL},
    "required": ["type", "image_url"],
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [_TEXT, _PICTURE]}}]}
_MESSAGE = {
    "type": "object",
    "properties": {"role": {"const": "user"}, "content": _CONTENT},
    "required": ["role", "content"],
}


def chat_schema() -> dict[str, Any]:
    """The body's schema: the fields of the images routes, a message in the prompt's place."""
    schema = EditFields.model_json_schema()
    del schema["properties"]["prompt"]
    schema["properties"] |= {
        MESSAGES: {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": 1},
        "extra_body": {"type": "object", "description": "Fields, as some clients nest them."},
        **{name: {"description": NO_EFFECT} for name in OF_TEXT_MODELS},
        **{name: {"type": "integer"} for name in ("width", "height", "num_outputs_per_prompt")},
    }
    schema["required"] = [MESSAGES]
    return schema
