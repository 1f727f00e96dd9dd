"""The bodies of responses: OpenAI's, with each image's seed and recipe beside it.

The names of the models here are those of the OpenAPI document's components.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from qwen_image_client import GeneratedImage
from qwen_image_client.integration import encode_lossy
from qwen_image_gateway.schemas import Fields, OutputFormat

_TOKEN_SIDE = 16  # pixels a side of an image token of the transformer
_BEST_QUALITY = 100


class Error(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: Error


class Health(BaseModel):
    """How it stands."""

    status: str


class Model(BaseModel):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "qwen-image-triton"


class Models(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


class TokenDetails(BaseModel):
    """Tokens by their kind."""

    text_tokens: int = 0
    image_tokens: int = 0


class Usage(BaseModel):
    """Tokens of the pictures made. Those that came in, words and pictures, aren't counted."""

    input_tokens: int = 0
    input_tokens_details: TokenDetails = Field(default_factory=TokenDetails)
    output_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, images: Sequence[GeneratedImage]) -> Usage:
        tokens = sum((image.recipe.width // _TOKEN_SIDE) * (image.recipe.height // _TOKEN_SIDE) for image in images)
        return cls(output_tokens=tokens, total_tokens=tokens)


class Picture(BaseModel):
    """One picture."""

    b64_json: str | None = Field(description="The file; null where url was asked for.")
    url: str | None = Field(description="A data URL that holds the file; null unless it was asked for.")
    seed: int
    recipe: dict[str, Any] = Field(description="What it was made from, as its PNG holds it.")

    @classmethod
    async def of(cls, image: GeneratedImage, fields: Fields) -> Picture:
        content, as_url = await encode_base64(image, fields), fields.wants_url
        return cls(
            b64_json=None if as_url else content,
            url=_make_data_url(fields.file_format, content) if as_url else None,
            seed=image.seed,
            recipe=recipe_json(image),
        )


class Pictures(BaseModel):
    """The answer to a request that doesn't stream."""

    created: int
    background: Literal["opaque"] = "opaque"
    output_format: OutputFormat
    size: str
    data: list[Picture]
    usage: Usage

    @classmethod
    async def of(cls, images: Sequence[GeneratedImage], fields: Fields) -> Pictures:
        return cls(
            created=int(time.time()),
            output_format=fields.file_format,
            size=size_text(images[0]),
            data=await asyncio.gather(*(Picture.of(image, fields) for image in images)),
            usage=Usage.of(images),
        )


class ImagePart(BaseModel):
    """One image of an answer."""

    type: Literal["image_url"] = "image_url"
    image_url: dict[str, str]


class Message(BaseModel):
    """The answer's message."""

    role: Literal["assistant"] = "assistant"
    content: list[ImagePart]


class Choice(BaseModel):
    """The one choice there is; it holds all images."""

    index: int = 0
    message: Message
    finish_reason: Literal["stop"] = "stop"


class ChatUsage(BaseModel):
    """Tokens as chat counts them; see `Usage`."""

    prompt_tokens: int = 0
    completion_tokens: int
    total_tokens: int


class ChatAnswer(BaseModel):
    """OpenAI's chat.completion, with images for content."""

    id: str = Field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage

    @classmethod
    def of(cls, images: Pictures, model: str) -> ChatAnswer:
        """The same images as content of a message, as vLLM-Omni answers."""
        urls = [image.url or _make_data_url(images.output_format, str(image.b64_json)) for image in images.data]
        content = [ImagePart(image_url={"url": url}) for url in urls]
        tokens = images.usage.output_tokens
        return cls(
            created=images.created,
            model=model,
            choices=[Choice(message=Message(content=content))],
            usage=ChatUsage(completion_tokens=tokens, total_tokens=tokens),
        )


async def encode_base64(image: GeneratedImage, fields: Fields) -> str:
    """The image's file in base64, encoded off the event loop: a large PNG takes a while."""

    def encode() -> str:
        return base64.b64encode(_encode_file(image, fields.file_format, fields.output_compression)).decode()

    return await asyncio.to_thread(encode)


def size_text(image: GeneratedImage) -> str:
    """The image's size as WIDTHxHEIGHT."""
    return f"{image.recipe.width}x{image.recipe.height}"


def recipe_json(image: GeneratedImage) -> dict[str, Any]:
    """The image's recipe, as PNG files hold it."""
    recipe: dict[str, Any] = json.loads(image.recipe.as_json())
    return recipe


def _encode_file(image: GeneratedImage, file_format: OutputFormat, quality: int | None) -> bytes:
    """The image as a file with its recipe inside."""
    if file_format == "png" or image.image is None:
        return image.to_png()
    quality = _BEST_QUALITY if quality is None else quality
    return encode_lossy(image.image, image.recipe, file_format.upper(), quality)


def _make_data_url(file_format: str, content_base64: str) -> str:
    return f"data:image/{file_format};base64,{content_base64}"
