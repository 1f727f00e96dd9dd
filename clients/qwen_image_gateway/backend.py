"""Triton behind the gateway: what it serves now, its images and previews, and the bytes on their way to it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass

from starlette.requests import Request
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from qwen_image_client import AsyncClient, GeneratedImage, InvalidRequest, Preview, Task
from qwen_image_client.integration import CHANNEL_OPTIONS, PROBE_TIMEOUT_S, TASKS, Address, Models
from qwen_image_gateway.errors import ApiError, not_ready, unprocessable
from qwen_image_gateway.requests.image_request import ImageRequest
from qwen_image_gateway.settings import GatewaySettings, SettingsError
from qwen_image_gateway.telemetry import TraceHeaders, Tracing

ENSEMBLES = Models()
# Triton accepts requests for the ensembles, and calls them ready, while one of these is unloaded.
_MODELS_OF_ENSEMBLES = ("validator", "text_encoder", "sampler", "sampler_stream", "dit", "vae_decoder", "vae_encoder")
_CLOSE_TIMEOUT_S = 5.0  # for cancellations on their way when the gateway stops


def parse_url(url: str) -> Address:
    """Triton's address.

    Raises:
        SettingsError: the URL can't be parsed, or is for HTTP, which has no streams.
    """
    try:
        return Address.parse(url, "grpc")
    except InvalidRequest as error:
        raise SettingsError(f"url={url!r} must be Triton's gRPC address, host:port: {error.message}") from error


class Triton:
    """One connection, on one event loop, shared by all requests. It is opened at its first use."""

    def __init__(self, settings: GatewaySettings, tracing: Tracing) -> None:
        address = parse_url(settings.url)
        self._tracing = tracing
        self._inflight = InflightBytes(settings.max_bytes_in_work)
        # No retries: a caller hears of a refusal at once and decides itself.
        self._client = AsyncClient(settings.url, timeout_s=settings.timeout_s, retries=0, headers=TraceHeaders())
        self._probe = InferenceServerClient(address.host_and_port, ssl=address.is_secure, channel_args=CHANNEL_OPTIONS)

    async def close(self) -> None:
        """Closes the connection, after the cancellations of requests in flight were sent."""
        await self._inflight.wait_until_empty(_CLOSE_TIMEOUT_S)
        await self._client.close()
        await self._probe.close()

    async def task(self) -> Task:
        """The served checkpoint's task, asked for at every call: Triton may come back with another checkpoint.

        Raises:
            ApiError: Triton can't be reached, or isn't ready.
        """
        try:
            for task in TASKS:
                if await self._probe.is_model_ready(ENSEMBLES.unary(task), client_timeout=PROBE_TIMEOUT_S):
                    return task
        except InferenceServerException as error:
            raise not_ready(f"Triton can't be asked: {error.message()}") from error
        raise not_ready("Triton answers, but its model isn't ready")

    async def check_ready(self) -> None:
        """Returns if Triton's ensemble is ready, and every model of it.

        Raises:
            ApiError: Triton can't be reached, or one isn't ready.
        """
        await self.task()
        try:
            are_ready = await asyncio.gather(
                *(self._probe.is_model_ready(model, client_timeout=PROBE_TIMEOUT_S) for model in _MODELS_OF_ENSEMBLES)
            )
        except InferenceServerException as error:
            raise not_ready(f"Triton can't be asked: {error.message()}") from error
        missing = [model for model, is_ready in zip(_MODELS_OF_ENSEMBLES, are_ready, strict=True) if not is_ready]
        if missing:
            raise not_ready(f"Triton answers, but of its models {', '.join(missing)} can't be used now")

    async def generate(self, request: ImageRequest, request_id: str) -> list[GeneratedImage]:
        """The request's images, each a request of its own to Triton; if one fails, the others are cancelled.

        Raises:
            ApiError: too many bytes would be in flight.
        """
        with self._inflight.track(request):
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._generate_one(request, index, request_id))
                        for index in range(request.num_images)
                    ]
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [task.result() for task in tasks]

    async def _generate_one(self, request: ImageRequest, index: int, request_id: str) -> GeneratedImage:
        triton_id, seed = make_triton_id(request_id), request.seed_of(index)
        generate = self._client.edit if request.task == "edit" else self._client.generate
        with self._tracing.span(f"triton {ENSEMBLES.unary(request.task)}", request_id=triton_id):
            (image,) = await generate(request.prompt, seed=seed, request_id=triton_id, **request.options)
        return image

    async def stream(self, request: ImageRequest, request_id: str) -> AsyncGenerator[Preview, None]:
        """The request's one image after every step. Read and close it in one task.

        Raises:
            ApiError: too many bytes would be in flight.
        """
        triton_id, ensemble = make_triton_id(request_id), ENSEMBLES.stream(request.task)
        stream = self._client.stream_edit if request.task == "edit" else self._client.stream
        options = {**request.options, "seed": request.seed, "num_previews": request.num_previews}
        with self._inflight.track(request), self._tracing.span(f"triton {ensemble}", request_id=triton_id):
            async with aclosing(stream(request.prompt, request_id=triton_id, **options)) as previews:
                async for preview in previews:
                    yield preview


def make_triton_id(request_id: str) -> str:
    """The request's id as Triton knows it. Anyone who knows it can cancel the request, so its end can't be guessed;
    and if a caller sends an id twice, cancelling one request leaves the other."""
    return f"{request_id}-{secrets.token_hex(8)}"


class InflightBytes:
    """The input bytes of all requests in flight, at most `max_bytes`. Belongs to one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._num_requests = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @contextmanager
    def track(self, request: ImageRequest) -> Iterator[None]:
        """Counts the request while it is in flight.

        Raises:
            ApiError: its input images are too many bytes, by themselves (413) or with those in flight (429).
        """
        self._check_capacity(request.input_bytes)
        self._bytes += request.input_bytes
        self._num_requests += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._bytes -= request.input_bytes
            self._num_requests -= 1
            if self._num_requests == 0:
                self._is_empty.set()

    async def wait_until_empty(self, timeout_s: float) -> None:
        """Returns when no request is in flight, or after that time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_empty.wait(), timeout_s)

    def _check_capacity(self, wanted: int) -> None:
        if wanted > self._max_bytes:
            raise ApiError(
                413,
                f"{wanted} bytes of pictures would be sent to Triton, and at most {self._max_bytes} are: each file is "
                "sent once for every picture made of it, so ask for fewer at a time, or send smaller files",
                "picture_too_large",
                "image",
            )
        if self._bytes + wanted > self._max_bytes:
            message = (
                f"{self._bytes} bytes of pictures are in work, and at most {self._max_bytes} are: send it again later"
            )
            raise ApiError(429, message, "gateway_busy")


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes of one application share.

    Attributes:
        started_s: of the gateway, in seconds since 1970; callers see it as the age of the model.
    """

    settings: GatewaySettings
    triton: Triton
    started_s: int

    async def task(self, model: str | None) -> Task:
        """The task of the served model.

        Raises:
            ApiError: `model` names another one, or none is ready.
        """
        task = await self.triton.task()
        names = self.model_names(task)
        if model is not None and model not in names:
            served = f"{names[0]} is" if len(names) == 1 else f"{', '.join(names)} are its names"
            raise ApiError(404, f"model={model!r} isn't served; {served}", "model_not_found", "model")
        return task

    def model_names(self, task: Task) -> tuple[str, ...]:
        """The model's names: first its ensemble's in Triton."""
        return ENSEMBLES.unary(task), *self.settings.served_model_names


def service_of(request: Request) -> Service:
    """The service of the application that got the request."""
    service: Service = request.app.state.service
    return service


def check_generates(task: Task) -> None:
    """Refuses a prompt alone where the checkpoint edits.

    Raises:
        ApiError: what to do.
    """
    if task == "edit":
        raise unprocessable(
            "this server's checkpoint edits pictures: send one to /v1/images/edits", "model", "wrong_checkpoint"
        )
