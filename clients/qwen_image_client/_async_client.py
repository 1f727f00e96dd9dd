"""The asyncio client."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Self, Unpack

from qwen_image_client._async_dispatcher import AsyncDispatcher
from qwen_image_client._errors import QwenImageClientError, Timeout
from qwen_image_client._images import GeneratedImage, Preview
from qwen_image_client._job import Job
from qwen_image_client._options import ClientOptions, EditOptions, GenerationOptions
from qwen_image_client._request import GenerationRequest, expand_edits, expand_requests
from qwen_image_client._server_info import ServerInfo
from qwen_image_client._settings import PROBE_INTERVAL_S, Settings
from qwen_image_client._tensors import Output
from qwen_image_client._wire_types import Picture
from qwen_image_contract import TASKS, Task


class AsyncClient:
    """A connection to one server, on one event loop. Use it as an async context manager; share it between tasks.

    A call that runs out of time, or whose task is cancelled, cancels its request on the server before it raises.
    Images given as paths are read before anything is awaited.

    Args:
        url: "host:port", or with a scheme: grpc, grpcs, http or https.
        **options: see `ClientOptions`.

    Raises:
        InvalidRequest: an argument can't be used.
    """

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        self._settings = Settings.read(url, **options)
        self._dispatcher = AsyncDispatcher(self._settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. The client can't be used afterwards."""
        await self._dispatcher.close()

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
        """Makes the images of one or several prompts, in one request; from an image, if one is given.

        Args:
            outputs: "image", "latents", "mask" or several; without "image" nothing is decoded.
            request_id: for `cancel`; a random one when left out.
            timeout_s: limit of the call, retries included; the client's own when left out.
            **options: see `GenerationOptions`; what is left out takes the server's default.

        Returns:
            One image a row: `num_images` of the first prompt, then of the second, and so on.

        Raises:
            QwenImageClientError: see its subclasses.
            OSError: an image's file can't be read.
        """
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
        """Changes an image, or makes one of several, as the prompt says. Needs an edit checkpoint on the server.

        Takes what `generate` takes, without a strength or a mask.
        """
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
        return await self._dispatcher.run(job, self._settings.deadline(timeout_s))

    def stream(
        self,
        prompt: str | Sequence[str],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        preview_every: int | None = None,
        num_previews: int | None = None,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[Preview, None]:
        """Makes the images and yields a preview after every step; the last one, `is_final`, holds the images.

        Takes what `generate` takes, and `preview_every`: the images are decoded after every so many steps (the
        server's default is 1) and after the last; between them a preview's images have no `image`. Or it takes
        `num_previews`: so many steps, evenly spaced, are decoded beside the last. With `outputs=()` the previews report
        progress alone; there is no "mask". Needs gRPC.
        A loop that may be left early needs `contextlib.aclosing` around the iterator: it cancels the request at once.

        Raises:
            QwenImageClientError: see its subclasses.
            OSError: an image's file can't be read.
        """
        rows = expand_requests(prompt, **options)
        job = Job.streaming(self._settings.models, rows, outputs, request_id, preview_every, num_previews)
        return self._dispatcher.stream(job, self._settings.deadline(timeout_s))

    def stream_edit(
        self,
        prompt: str | Sequence[str],
        images: Picture | Sequence[Picture],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        preview_every: int | None = None,
        num_previews: int | None = None,
        **options: Unpack[EditOptions],
    ) -> AsyncGenerator[Preview, None]:
        """`edit` with a preview after every step; see `stream`."""
        rows = expand_edits(prompt, images, **options)
        job = Job.streaming(self._settings.models, rows, outputs, request_id, preview_every, num_previews, "edit")
        return self._dispatcher.stream(job, self._settings.deadline(timeout_s))

    async def cancel(self, request_id: str, *, timeout_s: float | None = None) -> int:
        """Cancels a request, whoever sent it; its caller gets `Cancelled`.

        Returns:
            How many of its images were running or queued. 0: the server doesn't know the id. It remembers it
            for a while, so that a request still on its way is cancelled when it arrives.
        """
        return await self._dispatcher.cancel(request_id, self._settings.deadline(timeout_s))

    async def server_info(self, *, timeout_s: float | None = None) -> ServerInfo:
        """What the server tells of itself: its task, the defaults of its options, its limits.

        Raises:
            ServerError: the server is too old to tell.
            QwenImageClientError: the server can't be asked; see its subclasses.
        """
        return await self._dispatcher.server_info(self._settings.deadline(timeout_s))

    async def is_ready(self) -> bool:
        """Whether the server answers and has its model ready, whichever task that is made for."""
        try:
            for task in TASKS:
                if await self._dispatcher.is_ready(task):
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
