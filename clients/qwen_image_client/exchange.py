"""Jobs sent and answered, blocking.

What is refused before any work is sent again within the deadline; the server's work ends where the caller leaves.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

from qwen_image_client.call import Call, Task, Tensors
from qwen_image_client.deadline import Deadline
from qwen_image_client.ending import leaves_work_behind, note_ended, note_not_ended
from qwen_image_client.errors import QwenImageClientError, ServerError
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.job import Job
from qwen_image_client.other_task import model_of_the_other_task, wrong_task
from qwen_image_client.settings import CANCEL_TIMEOUT_S, PROBE_TIMEOUT_S, Settings
from qwen_image_client.transport import transport


class Exchange:
    """One connection and all that goes over it. `AsyncExchange` is its twin."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = transport(settings.connection)

    def close(self) -> None:
        self._transport.close()

    def images(self, job: Job, deadline: Deadline) -> list[GeneratedImage]:
        """The images of a job with one answer."""
        with self._ending_work(job.call.request_id), self._telling_of_wrong_task(job.call):
            return job.images(self.infer(job.call, deadline))

    def previews(self, job: Job, deadline: Deadline) -> Generator[Preview, None, None]:
        """The previews of a job that streams, the final one after the stream has ended well."""
        final = None
        with (
            self._ending_work(job.call.request_id),
            self._telling_of_wrong_task(job.call),
            closing(self._responses(job.call, deadline)) as responses,
        ):
            for response in responses:
                preview = job.preview(response)
                if preview.is_final:
                    final = preview
                else:
                    yield preview
        yield job.checked_final(final)

    def infer(self, call: Call, deadline: Deadline) -> Tensors:
        """One call's answer."""
        attempt = 1
        while True:
            try:
                return self._transport.infer(call, deadline.remaining_s())
            except QwenImageClientError as error:
                self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    def cancel(self, request_id: str, deadline: Deadline) -> int:
        """Ends a request and counts its images."""
        return int(self.infer(self._settings.models.cancel_call(request_id), deadline)["cancelled"].item())

    def is_ready(self, task: Task) -> bool:
        """Whether the server takes requests of the task; one that doesn't know its model doesn't.

        Raises:
            QwenImageClientError: the server can't be asked.
        """
        return self._has(self._settings.models.unary(task))

    def _has(self, model: str) -> bool:
        try:
            return self._transport.is_ready(model, PROBE_TIMEOUT_S)
        except ServerError:
            return False

    def _responses(self, call: Call, deadline: Deadline) -> Generator[Tensors, None, None]:
        """The stream's responses; one that is refused before its first response is opened again."""
        attempt = 1
        while True:
            has_begun = False
            try:
                with closing(self._transport.stream(call, deadline.remaining_s())) as responses:
                    for response in responses:
                        has_begun = True
                        yield response
                return
            except QwenImageClientError as error:
                if has_begun:
                    raise
                self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    def _pause_or_raise(self, error: QwenImageClientError, attempt: int, deadline: Deadline) -> None:
        delay_s = self._settings.retry.delay_s(error, attempt, deadline.remaining_s())
        if delay_s is None:
            raise error
        time.sleep(delay_s)

    @contextmanager
    def _telling_of_wrong_task(self, call: Call) -> Iterator[None]:
        """Says so where the server lacks the model since its checkpoint is made for the other task."""
        try:
            yield
        except QwenImageClientError as error:
            other = model_of_the_other_task(error, call, self._settings.models)
            if other is not None and self._has(other):
                raise wrong_task(error, call, self._settings.models) from error
            raise

    @contextmanager
    def _ending_work(self, request_id: str) -> Iterator[None]:
        """Ends the request's work on the server where the caller leaves before it is done."""
        try:
            yield
        except BaseException as error:
            if leaves_work_behind(error):
                self._end_work(request_id, error)
            raise

    def _end_work(self, request_id: str, reason: BaseException) -> None:
        try:
            note_ended(reason, self.cancel(request_id, Deadline.after(CANCEL_TIMEOUT_S)))
        except QwenImageClientError as error:
            note_not_ended(reason, request_id, error)
