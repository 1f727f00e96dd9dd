"""The blocking client."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
from qwen_image_client.transport import transport


class Client:
    """A connection to one server. Use it as a context manager; it is safe to share between threads.

    A call that runs out of time or is interrupted (Ctrl-C) ends its work on the server before it raises.

    Args:
        url: "host:port", or with a scheme: grpc, grpcs, http or https.
        protocol: "grpc" (when the url has no scheme) or "http", which has no previews.
        timeout_s: the limit of every call that gives none of its own; None is no limit.
        retries: further attempts for a request that was refused before any work began.
        model: the served model's name; its stream and cancel models are named after it.
        headers: sent with every request, for instance a gateway's authorization.
        root_certificates: a PEM file to trust in place of the system's.

    Raises:
        InvalidRequest: an argument can't be used.
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
        self._transport = transport(self._settings.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. The client can't be used afterwards."""
        self._transport.close()

    @property
    def has_previews(self) -> bool:
        """Whether the protocol in use can `stream`."""
        return self._settings.connection.address.protocol == "grpc"

    def generate(
        self,
        prompt: str | Sequence[str],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[GeneratedImage]:
        """Makes the images of one or several prompts, in one request.

        Args:
            outputs: "image", "latents" or both; without "image" nothing is decoded.
            request_id: for `cancel`; a random one when left out.
            timeout_s: limit of the call, retries included; the client's own when left out.
            **options: see `GenerationOptions`; what is left out takes the server's default.

        Returns:
            One image a row: `num_images` of the first prompt, then of the second, and so on.

        Raises:
            QwenImageClientError: see `qwen_image_client.errors`.
        """
        rows = expand_requests(prompt, **options)
        return self.run(rows, outputs=outputs, request_id=request_id, timeout_s=timeout_s)

    def run(
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
        with self._ending_work(job.call.request_id):
            return job.images(self._infer(job.call, deadline))

    def stream(
        self,
        prompt: str | Sequence[str],
        *,
        outputs: Sequence[Output] = ("image",),
        request_id: str | None = None,
        timeout_s: float | None = None,
        preview_every: int | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Generator[Preview, None, None]:
        """Makes the images and yields a preview after every step; the last one, `is_final`, holds the images.

        Takes what `generate` takes, and `preview_every`: the images are decoded after every so many steps (the
        server's default is 1) and after the last; between them a preview's images have no `image`. With
        `outputs=()` the previews tell of the progress alone. Needs gRPC.
        Closing the iterator, or leaving its loop, ends the work.

        Raises:
            QwenImageClientError: see `qwen_image_client.errors`.
        """
        job = Job.streaming(
            self._settings.models, expand_requests(prompt, **options), outputs, request_id, preview_every
        )
        return self._previews(job, self._settings.deadline(timeout_s))

    def cancel(self, request_id: str, *, timeout_s: float | None = None) -> int:
        """Ends a request, whoever sent it; its caller gets `Cancelled`.

        Returns:
            How many of its images were running or queued. 0: the server doesn't know the id. It remembers it
            for a while, so that a request still on its way is ended when it arrives.
        """
        call = self._settings.models.cancel_call(request_id)
        return int(self._infer(call, self._settings.deadline(timeout_s))["cancelled"].item())

    def is_ready(self) -> bool:
        """Whether the server answers and has the model ready."""
        try:
            return self._transport.is_ready(self._settings.models.generate, PROBE_TIMEOUT_S)
        except QwenImageClientError:
            return False

    def wait_until_ready(self, timeout_s: float) -> None:
        """Returns once the server is ready.

        Raises:
            Timeout: it isn't after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if time.monotonic() + PROBE_INTERVAL_S > deadline:
                raise Timeout(f"{self._settings.where} isn't ready after {timeout_s:g} s")
            time.sleep(PROBE_INTERVAL_S)

    def _infer(self, call: Call, deadline: Deadline) -> Tensors:
        attempt = 1
        while True:
            try:
                return self._transport.infer(call, deadline.remaining_s())
            except QwenImageClientError as error:
                self._pause_or_raise(error, attempt, deadline)
            attempt += 1

    def _previews(self, job: Job, deadline: Deadline) -> Generator[Preview, None, None]:
        final = None
        with self._ending_work(job.call.request_id), closing(self._responses(job.call, deadline)) as responses:
            for response in responses:
                preview = job.preview(response)
                if preview.is_final:
                    final = preview
                else:
                    yield preview
        yield job.checked_final(final)

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
            note_ended(reason, self.cancel(request_id, timeout_s=CANCEL_TIMEOUT_S))
        except QwenImageClientError as error:
            note_not_ended(reason, request_id, error)
