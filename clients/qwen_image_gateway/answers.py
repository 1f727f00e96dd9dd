"""The bodies of answers: OpenAI's, with each picture's seed and recipe beside it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from qwen_image_client import GeneratedImage
from qwen_image_gateway.data_urls import data_url
from qwen_image_gateway.fields import Fields, OutputFormat
from qwen_image_gateway.pictures import encoded

_TOKEN_SIDE = 16  # pixels a side of what the transformer sees as one token


class Error(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: Error


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


class Pictures(BaseModel):
    """The answer to a request that doesn't stream."""

    created: int
    background: Literal["opaque"] = "opaque"
    output_format: OutputFormat
    size: str
    data: list[Picture]
    usage: Usage


async def pictures_of(images: Sequence[GeneratedImage], fields: Fields) -> Pictures:
    """The answer that holds these images."""
    return Pictures(
        created=int(time.time()),
        output_format=fields.file_format,
        size=size_of(images[0]),
        data=await asyncio.gather(*(_picture(image, fields) for image in images)),
        usage=Usage.of(images),
    )


async def _picture(image: GeneratedImage, fields: Fields) -> Picture:
    content, as_url = await base64_of(image, fields), fields.wants_url
    return Picture(
        b64_json=None if as_url else content,
        url=data_url(fields.file_format, content) if as_url else None,
        seed=image.seed,
        recipe=recipe_of(image),
    )


async def base64_of(image: GeneratedImage, fields: Fields) -> str:
    """The image's file in base64, made beside the event loop: a large PNG takes a while."""

    def made() -> str:
        return base64.b64encode(encoded(image, fields.file_format, fields.output_compression)).decode()

    return await asyncio.to_thread(made)


def size_of(image: GeneratedImage) -> str:
    """WIDTHxHEIGHT, as the server made it."""
    return f"{image.recipe.width}x{image.recipe.height}"


def recipe_of(image: GeneratedImage) -> dict[str, Any]:
    """The recipe, as it is written into PNG files."""
    recipe: dict[str, Any] = json.loads(image.recipe.as_json())
    return recipe
