# Generated from _async_dispatcher.py: edit that, then run .venv/bin/python -m scripts.unasync
"""Jobs sent and answered, blocking.

What is refused before any work is retried within the deadline. A call that is abandoned cancels its request.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TypeVar

from qwen_image_client._call import Call, Tensors, find_other_model, is_unknown_model, wrong_model_hint
from qwen_image_client._errors import (
    QwenImageClientError,
    ServerError,
    add_cancel_note,
    add_failed_cancel_note,
    should_cancel,
)
from qwen_image_client._images import GeneratedImage, Preview
from qwen_image_client._job import Job
from qwen_image_client._server_info import ServerInfo, read_server_info
from qwen_image_client._settings import CANCEL_TIMEOUT_S, PROBE_TIMEOUT_S, Deadline, Settings
from qwen_image_client._transport import open_transport
from qwen_image_contract import TASKS, Task

Answer = TypeVar("Answer")


class Dispatcher:
    """One connection and all that goes over it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = open_transport(settings.connection)

    def close(self) -> None:
        self._transport.close()

    def run(self, job: Job, deadline: Deadline) -> list[GeneratedImage]:
        """The images of a job with one answer."""
        with self._cancel_if_abandoned(job.call.request_id), self._hint_at_wrong_model(job.call):
            return job.read_images(self.infer(job.call, deadline))

    def stream(self, job: Job, deadline: Deadline) -> Generator[Preview, None, None]:
        """The previews of a job that streams, the final one after the stream has ended well."""
        final = None
        with (
            self._cancel_if_abandoned(job.call.request_id),
            self._hint_at_wrong_model(job.call),
            closing(self._responses(job.call, deadline)) as responses,
        ):
            for response in responses:
                preview = job.read_preview(response)
                if preview.is_final:
                    final = preview
                else:
                    yield preview
        yield job.check_final(final)

    def infer(self, call: Call, deadline: Deadline) -> Tensors:
        """One call's answer."""
        return self._retry(lambda: self._transport.infer(call, deadline.remaining_s()), deadline)

    def cancel(self, request_id: str, deadline: Deadline) -> int:
        """Cancels a request and counts its images."""
        answer = self.infer(self._settings.models.cancel_call(request_id), deadline)
        return int(answer["cancelled"].item())

    def is_ready(self, task: Task) -> bool:
        """Whether the server takes requests of the task; one that doesn't know its model doesn't.

        Raises:
            QwenImageClientError: the server can't be asked.
        """
        return self._is_ready(self._settings.models.unary(task))

    def server_info(self, deadline: Deadline) -> ServerInfo:
        """What the server tells of itself, by whichever of its ensembles is there."""
        return read_server_info(self._retry(lambda: self._parameters(deadline), deadline))

    def _parameters(self, deadline: Deadline) -> Mapping[str, str]:
        errors = []
        for task in TASKS:
            try:
                return self._transport.parameters(self._settings.models.unary(task), deadline.remaining_s())
            except QwenImageClientError as error:
                if not is_unknown_model(error):
                    raise
                errors.append(error)
        raise next((error for error in errors if error.retryable), errors[0])

    def _is_ready(self, model: str) -> bool:
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

    def _retry(self, send: Callable[[], Answer], deadline: Deadline) -> Answer:
        attempt = 1
        while True:
            try:
                return send()
            except QwenImageClientError as error:
                self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    def _pause_or_raise(self, error: QwenImageClientError, attempt: int, deadline: Deadline) -> None:
        delay_s = self._settings.retry.delay_s(error, attempt, deadline.remaining_s())
        if delay_s is None:
            raise error
        time.sleep(delay_s)

    @contextmanager
    def _hint_at_wrong_model(self, call: Call) -> Iterator[None]:
        """Says so where the server lacks the model since its checkpoint is made for the other task."""
        try:
            yield
        except QwenImageClientError as error:
            other = find_other_model(error, call, self._settings.models)
            if other is not None and self._is_ready(other):
                raise wrong_model_hint(error, call, self._settings.models) from error
            raise

    @contextmanager
    def _cancel_if_abandoned(self, request_id: str) -> Iterator[None]:
        """Cancels the request where its caller leaves before it is done, or its answer never came."""
        try:
            yield
        except BaseException as error:
            if should_cancel(error):
                self._cancel_abandoned(request_id, error)
            raise

    def _cancel_abandoned(self, request_id: str, reason: BaseException) -> None:
        try:
            add_cancel_note(reason, self.cancel(request_id, Deadline.after(CANCEL_TIMEOUT_S)))
        except QwenImageClientError as error:
            add_failed_cancel_note(reason, request_id, error)
