"""The gateway's side of Triton: what it serves now, pictures, and previews on the way to them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from qwen_image_client import AsyncClient, GeneratedImage, InvalidRequest, Preview, Task
from qwen_image_client.integration import CHANNEL_OPTIONS, PROBE_TIMEOUT_S, TASKS, Address, Models
from qwen_image_gateway.errors import not_ready
from qwen_image_gateway.in_work import InWork
from qwen_image_gateway.orders import Order
from qwen_image_gateway.settings import GatewaySettings, SettingsError
from qwen_image_gateway.tracing import CurrentTrace, Tracing

MODELS = Models()
# Triton takes requests for the ensembles while one of these is unloaded, and says that it's ready.
_BEHIND_ENSEMBLES = ("validator", "text_encoder", "sampler", "sampler_stream", "dit", "vae_decoder", "vae_encoder")
_LEAVE_S = 5.0  # for work that is being ended when the gateway stops


def address_of(url: str) -> Address:
    """Triton's address.

    Raises:
        SettingsError: it can't be read, or is one for HTTP, which has no streams.
    """
    try:
        return Address.parse(url, "grpc")
    except InvalidRequest as error:
        raise SettingsError(f"url={url!r} must be Triton's gRPC address, host:port: {error.message}") from error


class Triton:
    """One connection, on one event loop, shared by all requests. It is made when it is first used."""

    def __init__(self, settings: GatewaySettings, tracing: Tracing) -> None:
        address = address_of(settings.url)
        self._tracing = tracing
        self._in_work = InWork(settings.max_bytes_in_work)
        # Who is refused is told at once: it is for callers to try again.
        self._client = AsyncClient(settings.url, timeout_s=settings.timeout_s, retries=0, headers=CurrentTrace())
        self._probe = InferenceServerClient(address.host_and_port, ssl=address.is_secure, channel_args=CHANNEL_OPTIONS)

    async def close(self) -> None:
        """Waits for what is being ended: its cancellation has to be sent before the connection closes."""
        await self._in_work.wait_until_none(_LEAVE_S)
        await self._client.close()
        await self._probe.close()

    async def task(self) -> Task:
        """What the served checkpoint is made for, asked anew each time: Triton may come back with another one.

        Raises:
            ApiError: Triton can't be asked, or isn't ready.
        """
        try:
            for task in TASKS:
                if await self._probe.is_model_ready(MODELS.unary(task), client_timeout=PROBE_TIMEOUT_S):
                    return task
        except InferenceServerException as error:
            raise not_ready(f"Triton can't be asked: {error.message()}") from error
        raise not_ready("Triton answers, but its model isn't ready")

    async def check_ready(self) -> None:
        """Returns if Triton has its model ready, and every model behind it.

        Raises:
            ApiError: Triton can't be asked, or one isn't ready.
        """
        await self.task()
        try:
            are_ready = await asyncio.gather(
                *(self._probe.is_model_ready(model, client_timeout=PROBE_TIMEOUT_S) for model in _BEHIND_ENSEMBLES)
            )
        except InferenceServerException as error:
            raise not_ready(f"Triton can't be asked: {error.message()}") from error
        missing = [model for model, is_ready in zip(_BEHIND_ENSEMBLES, are_ready, strict=True) if not is_ready]
        if missing:
            raise not_ready(f"Triton answers, but of its models {', '.join(missing)} can't be used now")

    async def images(self, order: Order, request_id: str) -> list[GeneratedImage]:
        """The order's pictures, each a request of its own to Triton; if one fails, the others are ended.

        Raises:
            ApiError: too many bytes would be on their way.
        """
        with self._in_work.holding(order):
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._image(order, index, request_id)) for index in range(order.num_images)
                    ]
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [task.result() for task in tasks]

    async def _image(self, order: Order, index: int, request_id: str) -> GeneratedImage:
        name, seed = triton_id(request_id), order.seed_of(index)
        make = self._client.edit if order.task == "edit" else self._client.generate
        with self._tracing.span(f"triton {MODELS.unary(order.task)}", request_id=name):
            (image,) = await make(order.prompt, seed=seed, request_id=name, **order.options)
        return image

    async def previews(self, order: Order, request_id: str) -> AsyncGenerator[Preview, None]:
        """The order's one picture after every step. Read it in one task, in which it is closed, too.

        Raises:
            ApiError: too many bytes would be on their way.
        """
        name = triton_id(request_id)
        make = self._client.stream_edit if order.task == "edit" else self._client.stream
        with self._in_work.holding(order), self._tracing.span(f"triton {MODELS.stream(order.task)}", request_id=name):
            answers = make(
                order.prompt, seed=order.seed, request_id=name, preview_every=order.preview_every, **order.options
            )
            async with aclosing(answers):
                async for preview in answers:
                    yield preview


def triton_id(request_id: str) -> str:
    """The request's id as Triton knows it. Whoever knows that may end the work, so nobody can guess its end; and
    a caller who sends an id twice doesn't have the second request ended with the first."""
    return f"{request_id}-{secrets.token_hex(8)}"
