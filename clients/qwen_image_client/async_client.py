"""The asyncio client: the twin of `Client`."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Self, Unpack

from qwen_image_client.async_exchange import AsyncExchange
from qwen_image_client.call import Task
from qwen_image_client.errors import QwenImageClientError, Timeout
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.job import Job
from qwen_image_client.options import ClientOptions, EditOptions, GenerationOptions
from qwen_image_client.outputs import Output
from qwen_image_client.pictures import Picture
from qwen_image_client.request import GenerationRequest, expand_edits, expand_requests
from qwen_image_client.settings import PROBE_INTERVAL_S, TASKS, Settings


class AsyncClient:
    """A connection to one server, on one event loop. Use it as an async context manager; share it between tasks.

    Takes what `Client` takes. A call that runs out of time, or whose task is cancelled, ends its work on the
    server before it raises. Pictures given as paths are read before anything is awaited.
    """

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        self._settings = Settings.read(url, **options)
        self._exchange = AsyncExchange(self._settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. The client can't be used afterwards."""
        await self._exchange.close()

    @property
    def has_previews(self) -> bool:
        """Whether the protocol in use can `stream`."""
        return self._settings.has_previews

    async def generate(
        self,
        prompt: str | Sequence[str],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[GeneratedImage]:
        """Makes the images of one or several prompts, in one request; see `Client.generate`."""
        rows = expand_requests(prompt, **options)
        return await self.run(rows, outputs=outputs, request_id=request_id, timeout_s=timeout_s)

    async def edit(
        self,
        prompt: str | Sequence[str],
        images: Picture | Sequence[Picture],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[EditOptions],
    ) -> list[GeneratedImage]:
        """Changes a picture, or makes one of several, as the prompt says; see `Client.edit`."""
        rows = expand_edits(prompt, images, **options)
        return await self.run(rows, task="edit", outputs=outputs, request_id=request_id, timeout_s=timeout_s)

    async def run(
        self,
        rows: Sequence[GenerationRequest],
        *,
        task: Task = "generate",
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> list[GeneratedImage]:
        """`generate` or `edit` for rows that differ in more than prompt and seed; they share width and height."""
        job = Job.unary(self._settings.models, rows, outputs, request_id, task)
        return await self._exchange.images(job, self._settings.deadline(timeout_s))

    def stream(
        self,
        prompt: str | Sequence[str],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        preview_every: int | None = None,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[Preview, None]:
        """Yields a preview after every step; see `Client.stream`.

        A loop that may be left early needs `contextlib.aclosing` around the iterator, which ends the work at once.
        """
        rows = expand_requests(prompt, **options)
        job = Job.streaming(self._settings.models, rows, outputs, request_id, preview_every)
        return self._exchange.previews(job, self._settings.deadline(timeout_s))

    def stream_edit(
        self,
        prompt: str | Sequence[str],
        images: Picture | Sequence[Picture],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        preview_every: int | None = None,
        **options: Unpack[EditOptions],
    ) -> AsyncGenerator[Preview, None]:
        """`edit` with a preview after every step; see `stream`."""
        rows = expand_edits(prompt, images, **options)
        job = Job.streaming(self._settings.models, rows, outputs, request_id, preview_every, "edit")
        return self._exchange.previews(job, self._settings.deadline(timeout_s))

    async def cancel(self, request_id: str, *, timeout_s: float | None = None) -> int:
        """Ends a request, whoever sent it, and counts the images ended; see `Client.cancel`."""
        return await self._exchange.cancel(request_id, self._settings.deadline(timeout_s))

    async def is_ready(self) -> bool:
        """Whether the server answers and has its model ready, whichever task that is made for."""
        try:
            for task in TASKS:
                if await self._exchange.is_ready(task):
                    return True
        except QwenImageClientError:
            pass
        return False

    async def wait_until_ready(self, timeout_s: float) -> None:
        """Returns once the server is ready.

        Raises:
            Timeout: it isn't after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while not await self.is_ready():
            if time.monotonic() + PROBE_INTERVAL_S > deadline:
                raise Timeout(f"{self._settings.where} isn't ready after {timeout_s:g} s")
            await asyncio.sleep(PROBE_INTERVAL_S)
