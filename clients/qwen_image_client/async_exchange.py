"""Jobs sent and answered on asyncio: the twin of `exchange`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from qwen_image_client.call import Call, Task, Tensors
from qwen_image_client.deadline import Deadline
from qwen_image_client.ending import leaves_work_behind, note_ended, note_not_ended
from qwen_image_client.errors import QwenImageClientError, ServerError
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.job import Job
from qwen_image_client.other_task import model_of_the_other_task, wrong_task
from qwen_image_client.settings import CANCEL_TIMEOUT_S, PROBE_TIMEOUT_S, Settings
from qwen_image_client.transport import async_transport


class AsyncExchange:
    """One connection, on one event loop, and all that goes over it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = async_transport(settings.connection)

    async def close(self) -> None:
        await self._transport.close()

    async def images(self, job: Job, deadline: Deadline) -> list[GeneratedImage]:
        """The images of a job with one answer."""
        async with self._ending_work(job.call.request_id), self._telling_of_wrong_task(job.call):
            return job.images(await self.infer(job.call, deadline))

    async def previews(self, job: Job, deadline: Deadline) -> AsyncGenerator[Preview, None]:
        """The previews of a job that streams, the final one after the stream has ended well."""
        final = None
        async with (
            self._ending_work(job.call.request_id),
            self._telling_of_wrong_task(job.call),
            aclosing(self._responses(job.call, deadline)) as responses,
        ):
            async for response in responses:
                preview = job.preview(response)
                if preview.is_final:
                    final = preview
                else:
                    yield preview
        yield job.checked_final(final)

    async def infer(self, call: Call, deadline: Deadline) -> Tensors:
        """One call's answer."""
        attempt = 1
        while True:
            try:
                return await self._transport.infer(call, deadline.remaining_s())
            except QwenImageClientError as error:
                await self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    async def cancel(self, request_id: str, deadline: Deadline) -> int:
        """Ends a request and counts its images."""
        answer = await self.infer(self._settings.models.cancel_call(request_id), deadline)
        return int(answer["cancelled"].item())

    async def is_ready(self, task: Task) -> bool:
        """Whether the server takes requests of the task; one that doesn't know its model doesn't.

        Raises:
            QwenImageClientError: the server can't be asked.
        """
        return await self._has(self._settings.models.unary(task))

    async def _has(self, model: str) -> bool:
        try:
            return await self._transport.is_ready(model, PROBE_TIMEOUT_S)
        except ServerError:
            return False

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
    async def _telling_of_wrong_task(self, call: Call) -> AsyncIterator[None]:
        """Says so where the server lacks the model since its checkpoint is made for the other task."""
        try:
            yield
        except QwenImageClientError as error:
            other = model_of_the_other_task(error, call, self._settings.models)
            if other is not None and await self._has(other):
                raise wrong_task(error, call, self._settings.models) from error
            raise

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
            note_ended(reason, await self.cancel(request_id, Deadline.after(CANCEL_TIMEOUT_S)))
        except QwenImageClientError as error:
            note_not_ended(reason, request_id, error)
