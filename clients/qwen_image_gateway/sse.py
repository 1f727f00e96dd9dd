"""Server-sent events: the events of an image stream in OpenAI's shape, and the response that sends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qwen_image_client import GeneratedImage, Preview, QwenImageClientError, Timeout
from qwen_image_gateway.client_connection import NotReadError, cancel_on_disconnect
from qwen_image_gateway.errors import ERROR_CODE, ApiError, internal_error, to_api_error
from qwen_image_gateway.responses import Usage, encode_base64, recipe_json, size_text
from qwen_image_gateway.schemas import Fields

Kind: TypeAlias = Literal["image_generation", "image_edit"]
MEDIA_TYPE = "text/event-stream"
_KEEP_ALIVE = b": the picture is being painted\n\n"
_HEADERS = {"content-type": MEDIA_TYPE, "cache-control": "no-store", "x-accel-buffering": "no"}


class Event(BaseModel):
    """One event; `type` is its name, too."""

    type: str

    def encode(self) -> bytes:
        return f"event: {self.type}\ndata: {self.model_dump_json()}\n\n".encode()


class ImageEvent(Event):
    """What every event with an image holds."""

    b64_json: str
    created_at: int
    size: str
    quality: Literal["auto"] = "auto"
    background: Literal["opaque"] = "opaque"
    output_format: str


class PartialEvent(ImageEvent):
    """A preview: the image as predicted after a step."""

    partial_image_index: int
    step: int
    num_inference_steps: int


class CompletedEvent(ImageEvent):
    """The image."""

    usage: Usage
    seed: int
    recipe: dict[str, Any]


class ErrorEvent(Event):
    """The last event of a stream that failed."""

    type: str = "error"
    error: dict[str, Any]

    @classmethod
    def of(cls, error: ApiError) -> ErrorEvent:
        return cls(error=error.body()["error"])  # type: ignore[arg-type]


async def make_events(
    kind: Kind, fields: Fields, previews: AsyncGenerator[Preview, None]
) -> AsyncGenerator[Event | None, None]:
    """The events of a stream's previews; None for a step without one."""

    num_shown = 0
    async with aclosing(previews):
        async for preview in previews:
            (image,) = preview.images
            if preview.is_final:
                yield await _completed_event(kind, fields, image)
            elif image.image is not None:
                yield await _partial_event(kind, fields, preview, num_shown)
                num_shown += 1
            else:
                yield None


async def _image_values(fields: Fields, image: GeneratedImage) -> dict[str, Any]:
    return {
        "b64_json": await encode_base64(image, fields),
        "created_at": int(time.time()),
        "size": size_text(image),
        "output_format": fields.file_format,
    }


async def _partial_event(kind: Kind, fields: Fields, preview: Preview, index: int) -> PartialEvent:
    return PartialEvent(
        type=f"{kind}.partial_image",
        **await _image_values(fields, preview.images[0]),
        partial_image_index=index,
        step=preview.step,
        num_inference_steps=preview.num_inference_steps,
    )


async def _completed_event(kind: Kind, fields: Fields, image: GeneratedImage) -> CompletedEvent:
    return CompletedEvent(
        type=f"{kind}.completed",
        **await _image_values(fields, image),
        usage=Usage.of([image]),
        seed=image.seed,
        recipe=recipe_json(image),
    )


class EventResponse(Response):
    """Sends events as they come.

    The response starts with the first event, so that an immediate refusal still has its HTTP status, or after
    `keep_alive_s`, so that no proxy gives up on a long queue. `timeout_s` bounds the stream, whether it waits for
    Triton or for the client.
    """

    def __init__(self, events: AsyncGenerator[Event | None, None], keep_alive_s: float, timeout_s: float) -> None:
        super().__init__(headers=_HEADERS)
        self._events = events
        self._keep_alive_s = keep_alive_s
        self._timeout_s = timeout_s
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = SseWriter(send, self.raw_headers)
        try:
            await cancel_on_disconnect(receive, self._send_all(writer))
        except (ApiError, QwenImageClientError) as error:
            if not writer.has_started:
                raise
            api_error = to_api_error(error, scope)
            scope[ERROR_CODE] = api_error.code
            await writer.send(ErrorEvent.of(api_error))
        except NotReadError:
            raise
        except Exception:
            if writer.has_started:
                await writer.send(ErrorEvent.of(internal_error()))
                await writer.end()
            raise
        await writer.end()

    async def _send_all(self, writer: SseWriter) -> None:
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                writer.keep_alive(self._keep_alive_s),
                aclosing(self._events) as events,
            ):
                async for event in events:
                    await writer.send(event)
        except TimeoutError as error:
            raise Timeout("the stream's deadline passed") from error


@dataclass(slots=True)
class SseWriter:
    """Writes events to a response, which starts with the first of them."""

    sink: Send
    headers: Sequence[tuple[bytes, bytes]]
    has_started: bool = False
    last_sent_s: float = field(default_factory=time.monotonic)
    _is_broken: bool = False  # half an event is out: the client would read anything after it as its other half
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, event: Event | None) -> None:
        """Sends an event. None, a step without one, sends nothing but the start of the response."""
        if event is not None or not self.has_started:
            await self._write(b"" if event is None else event.encode())

    async def end(self) -> None:
        await self.sink({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def keep_alive(self, every_s: float) -> AsyncGenerator[None, None]:
        """Within it, a comment is sent whenever nothing else was for `every_s`."""
        task = asyncio.create_task(self._send_comments(every_s))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send_comments(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(self.last_sent_s + every_s - time.monotonic())
            if time.monotonic() >= self.last_sent_s + every_s:
                await self._write(_KEEP_ALIVE)

    async def _write(self, content: bytes) -> None:
        async with self._lock:
            if self._is_broken:
                raise NotReadError
            if not self.has_started:
                await self.sink({"type": "http.response.start", "status": 200, "headers": self.headers})
                self.has_started = True
            self._is_broken = True
            await self.sink({"type": "http.response.body", "body": content, "more_body": True})
            self._is_broken = False
            self.last_sent_s = time.monotonic()
