"""A chat request for images: one user message, text and images, as vLLM-Omni's clients for Qwen-Image send it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from qwen_image_gateway.errors import invalid
from qwen_image_gateway.requests.bodies import read_json, validate
from qwen_image_gateway.requests.images import decode_data_url
from qwen_image_gateway.schemas import EditFields, Fields

MESSAGES = "messages"
TEXT_MODEL_FIELDS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
    *("modalities", "stop"),
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request: the fields of the images routes, the prompt among them; EditFields if there are images."""

    fields: Fields
    images: Sequence[bytes] = field(repr=False)


async def read_chat(request: Request) -> ChatRequest:
    """The request in a JSON body.

    Raises:
        ApiError, RequestValidationError: what is wrong with it.
    """
    return await asyncio.to_thread(_chat_request, await read_json(request))


def _chat_request(body: dict[str, Any]) -> ChatRequest:
    options = {name: value for name, value in _merge_extra_body(body).items() if name not in TEXT_MODEL_FIELDS}
    texts, urls = _read_user_message(options.pop(MESSAGES, None))
    if options.get("stream"):
        raise invalid("stream=true: chat isn't streamed here, /v1/images/generations and /edits are", "stream")
    if "prompt" in options:
        raise invalid("prompt is the user's message in a chat", "prompt")
    images = [decode_data_url(MESSAGES, url) for url in urls]
    values = {**_rename(options), "prompt": "\n".join(texts)}
    fields = validate(EditFields if images else Fields, values, strict=True)
    return ChatRequest(fields, images)


def _merge_extra_body(body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's client puts the fields of its `extra_body` beside the others; other clients send it as it is."""
    extra = body.pop("extra_body", None) or {}
    if not isinstance(extra, dict):
        raise invalid(f"extra_body must be an object, and is a {type(extra).__name__}", "extra_body")
    if twice := sorted(extra.keys() & body.keys()):
        raise invalid(f"{twice[0]} is given twice, in extra_body too", twice[0])
    return {**body, **extra}


def _rename(options: dict[str, Any]) -> dict[str, Any]:
    """Chat's own names of fields become those of the images routes."""
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


def _read_user_message(messages: Any) -> tuple[list[str], list[str]]:
    """The texts, and the URLs of images. An image has one prompt, so a longer conversation is refused."""
    match messages:
        case [{"role": "user", "content": str(text)}]:
            return [text], []
        case [{"role": "user", "content": list(parts)}]:
            return _split_parts(parts)
        case list() if len(messages) != 1:
            raise invalid(f"{len(messages)} messages: one is taken, from the user, with the whole prompt", MESSAGES)
        case _:
            raise invalid('messages must be [{"role": "user", "content": text or parts}]', MESSAGES)


def _split_parts(parts: Sequence[Any]) -> tuple[list[str], list[str]]:
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
