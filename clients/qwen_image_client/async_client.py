"""The asyncio client: the twin of `Client`."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from qwen_image_client.address import Protocol
from qwen_image_client.call import Call, Tensors
from qwen_image_client.deadline import Deadline
from qwen_image_client.ending import leaves_work_behind, note_ended, note_not_ended
from qwen_image_client.errors import QwenImageClientError, Timeout
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.job import Job, Output
from qwen_image_client.request import GenerationOptions, GenerationRequest, expand_requests
from qwen_image_client.settings import (
    CANCEL_TIMEOUT_S,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    PROBE_INTERVAL_S,
    PROBE_TIMEOUT_S,
    Settings,
)
from qwen_image_client.transport import async_transport


class AsyncClient:
    """A connection to one server, on one event loop. Use it as an async context manager; share it between tasks.

    Takes what `Client` takes. A call that runs out of time, or whose task is cancelled, ends its work on the
    server before it raises.
    """

    def __init__(
        self,
        url: str,
        *,
        protocol: Protocol | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        model: str = "qwen_image",
        headers: Mapping[str, str] | None = None,
        root_certificates: str | Path | None = None,
    ) -> None:
        self._settings = Settings.read(
            url,
            protocol=protocol,
            timeout_s=timeout_s,
            retries=retries,
            model=model,
            headers=headers,
            root_certificates=root_certificates,
        )
        self._transport = async_transport(self._settings.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. The client can't be used afterwards."""
        await self._transport.close()

    @property
    def has_previews(self) -> bool:
        """Whether the protocol in use can `stream`."""
        return self._settings.connection.address.protocol == "grpc"

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

    async def run(
        self,
        rows: Sequence[GenerationRequest],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> list[GeneratedImage]:
        """`generate` for rows that differ in more than prompt and seed; they share width and height."""
        job = Job.unary(self._settings.models, rows, outputs, request_id)
        deadline = self._settings.deadline(timeout_s)
        async with self._ending_work(job.call.request_id):
            return job.images(await self._infer(job.call, deadline))

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
        job = Job.streaming(
            self._settings.models, expand_requests(prompt, **options), outputs, request_id, preview_every
        )
        return self._previews(job, self._settings.deadline(timeout_s))

    async def cancel(self, request_id: str, *, timeout_s: float | None = None) -> int:
        """Ends a request, whoever sent it, and counts the images ended; see `Client.cancel`."""
        call = self._settings.models.cancel_call(request_id)
        answer = await self._infer(call, self._settings.deadline(timeout_s))
        return int(answer["cancelled"].item())

    async def is_ready(self) -> bool:
        """Whether the server answers and has the model ready."""
        try:
            return await self._transport.is_ready(self._settings.models.generate, PROBE_TIMEOUT_S)
        except QwenImageClientError:
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

    async def _infer(self, call: Call, deadline: Deadline) -> Tensors:
        attempt = 1
        while True:
            try:
                return await self._transport.infer(call, deadline.remaining_s())
            except QwenImageClientError as error:
                await self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    async def _previews(self, job: Job, deadline: Deadline) -> AsyncGenerator[Preview, None]:
        final = None
        async with self._ending_work(job.call.request_id), aclosing(self._responses(job.call, deadline)) as responses:
            async for response in responses:
                preview = job.preview(response)
                if preview.is_final:
                    final = preview
                else:
                    yield preview
        yield job.checked_final(final)

    async def _responses(self, call: Call, deadline: Deadline) -> AsyncGenerator[Tensors, None]:
        """The stream's responses; one that is refused before its first response is opened again."""
        attempt = 1
        while True:
            has_begun = False
            try:
                async with aclosing(self._transport.stream(call, deadline.remaining_s())) as responses:
                    async for response in responses:
                        has_begun = True
                        yield response
                return
            except QwenImageClientError as error:
                if has_begun:
                    raise
                await self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    async def _pause_or_raise(self, error: QwenImageClientError, attempt: int, deadline: Deadline) -> None:
        delay_s = self._settings.retry.delay_s(error, attempt, deadline.remaining_s())
        if delay_s is None:
            raise error
        await asyncio.sleep(delay_s)

    @asynccontextmanager
    async def _ending_work(self, request_id: str) -> AsyncIterator[None]:
        """Ends the request's work on the server where the caller leaves before it is done."""
        try:
            yield
        except BaseException as error:
            if leaves_work_behind(error):
                # Shielded, so that a second cancellation doesn't leave the server working.
                await asyncio.shield(self._end_work(request_id, error))
            raise

    async def _end_work(self, request_id: str, reason: BaseException) -> None:
        try:
            note_ended(reason, await self.cancel(request_id, timeout_s=CANCEL_TIMEOUT_S))
        except QwenImageClientError as error:
            note_not_ended(reason, request_id, error)
