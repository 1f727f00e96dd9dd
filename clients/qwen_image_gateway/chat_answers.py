"""The answer of a chat for images: OpenAI's chat.completion, with images for content, as vLLM-Omni answers."""

from __future__ import annotations

import uuid
from typing import Literal

from pydantic import BaseModel, Field

from qwen_image_gateway.answers import Pictures
from qwen_image_gateway.data_urls import data_url


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
    def of(cls, pictures: Pictures, model: str) -> ChatAnswer:
        """The answer that holds what the images routes answer."""
        urls = [picture.url or data_url(pictures.output_format, str(picture.b64_json)) for picture in pictures.data]
        content = [ImagePart(image_url={"url": url}) for url in urls]
        tokens = pictures.usage.output_tokens
        return cls(
            created=pictures.created,
            model=model,
            choices=[Choice(message=Message(content=content))],
            usage=ChatUsage(completion_tokens=tokens, total_tokens=tokens),
        )
