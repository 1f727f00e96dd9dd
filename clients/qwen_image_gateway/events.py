"""The events of a stream, in OpenAI's shape."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from qwen_image_client import GeneratedImage, Preview
from qwen_image_gateway.answers import Usage, base64_of, recipe_of, size_of
from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.fields import Fields
from qwen_image_gateway.steps import preview_steps

Kind: TypeAlias = Literal["image_generation", "image_edit"]


class Event(BaseModel):
    """One event; `type` is its name, too."""

    type: str

    def encoded(self) -> bytes:
        return f"event: {self.type}\ndata: {self.model_dump_json()}\n\n".encode()


class PictureEvent(Event):
    """What every event with a picture says."""

    b64_json: str
    created_at: int
    size: str
    quality: Literal["auto"] = "auto"
    background: Literal["opaque"] = "opaque"
    output_format: str


class PartialEvent(PictureEvent):
    """A preview: the picture as it would look if it stopped here."""

    partial_image_index: int
    step: int
    num_inference_steps: int


class CompletedEvent(PictureEvent):
    """The picture."""

    usage: Usage
    seed: int
    recipe: dict[str, Any]


class ErrorEvent(Event):
    """The end of a stream that went wrong."""

    type: str = "error"
    error: dict[str, Any]

    @classmethod
    def of(cls, error: ApiError) -> ErrorEvent:
        return cls(error=error.body()["error"])  # type: ignore[arg-type]


async def events_of(
    kind: Kind, fields: Fields, preview_every: int, previews: AsyncGenerator[Preview, None]
) -> AsyncGenerator[Event | None, None]:
    """The events that a stream's previews become; None for a step that has nothing to show."""

    def wanted(preview: Preview) -> frozenset[int]:
        return preview_steps(preview.num_inference_steps, preview_every, fields.partial_images or 0)

    shown = 0
    async with aclosing(previews):
        async for preview in previews:
            (image,) = preview.images
            if preview.is_final:
                yield await _completed(kind, fields, image)
            elif image.image is not None and preview.step in wanted(preview):
                yield await _partial(kind, fields, preview, shown)
                shown += 1
            else:
                yield None


async def _picture(fields: Fields, image: GeneratedImage) -> dict[str, Any]:
    return {
        "b64_json": await base64_of(image, fields),
        "created_at": int(time.time()),
        "size": size_of(image),
        "output_format": fields.file_format,
    }


async def _partial(kind: Kind, fields: Fields, preview: Preview, index: int) -> PartialEvent:
    return PartialEvent(
        type=f"{kind}.partial_image",
        **await _picture(fields, preview.images[0]),
        partial_image_index=index,
        step=preview.step,
        num_inference_steps=preview.num_inference_steps,
    )


async def _completed(kind: Kind, fields: Fields, image: GeneratedImage) -> CompletedEvent:
    return CompletedEvent(
        type=f"{kind}.completed",
        **await _picture(fields, image),
        usage=Usage.of([image]),
        seed=image.seed,
        recipe=recipe_of(image),
    )
