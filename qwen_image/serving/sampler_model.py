"""The sampler as a Triton model: many images in flight in one light process, each advanced by calls of `dit`.

`execute` returns at once and the answers follow. `sampler` and `sampler_stream` share this.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.errors import Cancelled, NotFinite, Unavailable
from qwen_image.finite import check_finite
from qwen_image.request.admission import Admission
from qwen_image.request.cancellation import Registry, Ticket, listen, sockets_folder
from qwen_image.sampling.denoise import State, denoise, steps_per_call, together
from qwen_image.sampling.latents import unpack_latents
from qwen_image.sampling.schedule import Schedule
from qwen_image.serving.backend import ModelSettings, error_response, log_request
from qwen_image.serving.bls import call
from qwen_image.serving.dit_client import DitClient
from qwen_image.serving.granted import grants_of_this_server
from qwen_image.serving.image_tokens import picture_tokens
from qwen_image.serving.job import Image, Job, read_job
from qwen_image.serving.metrics import Metrics
from qwen_image.serving.model_process import be_watched
from qwen_image.serving.tensors import response

CLOSE_WITHIN_S = 5.0
MAX_CALLS = 128  # of other models at one time
FINAL = 1  # TRITONSERVER_RESPONSE_COMPLETE_FINAL


class SamplerModel:
    """`sampler`: answers when an image is done. `streams` is for the subclass that answers after every step."""

    streams = False

    def initialize(self, args: Mapping[str, str]) -> None:
        settings = ModelSettings.from_args(args)
        self._checkpoint: Checkpoint = open_checkpoint(settings["checkpoint"], needs_weights=False)
        self._schedule = Schedule.from_config(self._checkpoint.config("scheduler"))
        self._tokens_per_call = 1 if self.streams else settings.integer("tokens_per_call")
        self._tokens_per_call_alone = 1 if self.streams else settings.integer("tokens_per_call_alone")
        self._metrics = Metrics(
            settings.name,
            "qwen_image_images_total",
            "qwen_image_images_in_flight",
            "qwen_image_images_waiting",
            "qwen_image_cancelled_images_total",
            "qwen_image_refused_images_total",
            "qwen_image_failed_steps_total",
            "qwen_image_not_finite_images_total",
            "qwen_image_step_seconds_total",
            "qwen_image_step_calls_total",
        )
        self._dit = DitClient(
            self._metrics,
            max_pack=settings.integer("dit_max_batch_size"),
            dit_instances=settings.integer("dit_instances"),
        )
        self._grants = grants_of_this_server()
        self._registry = Registry()
        self._admission = Admission(
            settings.integer("max_images_in_flight"),
            settings.integer("max_images_waiting"),
            on_waiting=lambda change: self._metrics.add("qwen_image_images_waiting", change),
        )
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        # Every call of another model waits in a thread: one for each that may be made, or previews would hold up steps.
        self._loop.set_default_executor(ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="call"))
        threading.Thread(target=self._loop.run_forever, name="denoising", daemon=True).start()
        self._socket_path = sockets_folder() / f"{settings.name}.sock"
        asyncio.run_coroutine_threadsafe(listen(self._registry, self._socket_path), self._loop).result()
        be_watched(settings.name)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            try:
                job = read_job(request, self._checkpoint, self._grants)
            except Exception as error:  # one bad request never sinks its batch-mates
                sender.send(error_response(error, request.request_id()), flags=FINAL)
                continue
            asyncio.run_coroutine_threadsafe(self._serve(job, sender), self._loop)

    def finalize(self) -> None:
        """Refuse what is still in flight: Triton has already waited for it as long as it was told to."""
        self._is_closing = True
        deadline = time.monotonic() + CLOSE_WITHIN_S
        while self._admission.in_flight + self._admission.waiting and time.monotonic() < deadline:
            time.sleep(0.05)
        self._socket_path.unlink(missing_ok=True)
        self._metrics.close()

    async def _serve(self, job: Job, sender: Any) -> None:
        images = len(job.images)
        ticket = self._registry.enter(job.request_id, images)
        try:
            async with self._admission.place(images, lambda: self._check_wanted(ticket, job)):
                await self._answer_counted(job, ticket, sender)
        except Exception as error:
            if isinstance(error, Cancelled):
                self._metrics.add("qwen_image_cancelled_images_total", images)
            if isinstance(error, Unavailable):
                self._metrics.add("qwen_image_refused_images_total", images)
            if isinstance(error, NotFinite):
                self._metrics.add("qwen_image_not_finite_images_total", images)
            sender.send(error_response(error, job.request_id), flags=FINAL)
        finally:
            self._registry.leave(ticket)

    async def _answer_counted(self, job: Job, ticket: Ticket, sender: Any) -> None:
        images = len(job.images)
        self._metrics.add("qwen_image_images_in_flight", images)
        try:
            await self._answer(job, ticket, sender)
            self._metrics.add("qwen_image_images_total", images)
        finally:
            self._metrics.add("qwen_image_images_in_flight", -images)

    async def _answer(self, job: Job, ticket: Ticket, sender: Any) -> None:
        log_request(job.request_id, f"images: {len(job.images)} of {job.width}x{job.height}, steps {job.step_counts}")
        self._check_wanted(ticket, job)
        if self.streams:
            await self._answer_every_step(job, ticket, sender)
        else:
            last: list[State] = []
            async for last in self._states(job, ticket):  # noqa: B007 - only the last states are wanted
                self._check_wanted(ticket, job)
            sender.send(response(**self._outputs(job, last)), flags=FINAL)
        log_request(job.request_id, "done")

    async def _answer_every_step(self, job: Job, ticket: Ticket, sender: Any) -> None:
        """A preview is decoded while the next step is computed, one at a time: the VAE never falls behind."""
        preview: asyncio.Task[None] | None = None
        try:
            async for states in self._states(job, ticket):
                if preview is not None:
                    await preview
                preview = asyncio.ensure_future(self._send_preview(job, states, sender))
                self._check_wanted(ticket, job)
        finally:
            if preview is not None:
                await asyncio.wait([preview])
        if preview is not None:
            preview.result()
        sender.send(flags=FINAL)

    async def _send_preview(self, job: Job, states: list[State], sender: Any) -> None:
        outputs = self._outputs(job, states)
        if "image" in job.wanted:
            outputs["image"] = await self._preview(job, states)
        sender.send(response(**outputs))

    async def _preview(self, job: Job, states: list[State]) -> NDArray[Any]:
        """(B, height, width, 3) pixels; (B, 0, 0, 3) after a step that nobody wants to see."""
        if not job.previews.is_due(max(state.step for state in states), max(job.step_counts)):
            return np.zeros((len(states), 0, 0, 3), np.uint8)
        latents = self._unpacked(job, [state.predicted for state in states])
        (image,) = await call("vae_decoder", {"latents": latents, **job.decoder_inputs}, ["image"], job.request_id)
        return image

    def _states(self, job: Job, ticket: Ticket) -> AsyncIterator[list[State]]:
        check_wanted = partial(self._check_wanted, ticket, job)
        return together([self._walk(image, job.request_id, check_wanted) for image in job.images])

    async def _walk(self, image: Image, request_id: str, check_wanted: Callable[[], None]) -> AsyncIterator[State]:
        family = self._checkpoint.family
        pictures = await picture_tokens(
            image, request_id, are_references=family.edit is not None, vae_scale_factor=family.vae_scale_factor
        )
        sigmas = self._schedule.sigmas(
            num_inference_steps=image.num_inference_steps, image_tokens=image.image_tokens, sigmas=image.sigmas
        )[image.first_step :]
        tokens = image.image_tokens + pictures.reference_tokens
        advance = self._dit.advance_for(image, pictures, request_id, check_wanted)

        def steps(done: int) -> int:
            return min(self._steps_per_call(tokens), image.steps_of_one_scale(done))

        async for state in denoise(advance, sigmas, steps):
            check_finite(state.latents, "dit", f"latents after step {state.step} of {image.steps}")
            yield state

    def _steps_per_call(self, image_tokens: int) -> int:
        """More at a time while nobody else is there to wait for the end of the call."""
        is_alone = self._admission.in_flight <= 1
        return steps_per_call(self._tokens_per_call_alone if is_alone else self._tokens_per_call, image_tokens)

    def _check_wanted(self, ticket: Ticket, job: Job) -> None:
        """Between two calls of `dit`, failed ones too, and in the queue: whether anybody still waits for this."""
        if ticket.is_cancelled:
            raise Cancelled(f"request {ticket.request_id} was cancelled")
        job.deadline.check()
        if self._is_closing:
            raise Unavailable("the server is shutting down; send the request again elsewhere")

    def _outputs(self, job: Job, states: list[State]) -> dict[str, NDArray[Any]]:
        """What was asked for, the previews' pixels excepted."""
        outputs: dict[str, NDArray[Any]] = {
            "used_seed": _column([image.seed for image in job.images], np.int64),
            "used_num_inference_steps": _column(job.step_counts, np.int32),
            "used_true_cfg_scale": np.array(
                [[image.true_cfg_scale if image.uses_guidance else 1] for image in job.images], np.float32
            ),
            "used_width": _column([job.width] * len(job.images), np.int32),
            "used_height": _column([job.height] * len(job.images), np.int32),
            "step": _column([state.step for state in states], np.int32),
        }
        if job.wanted & {"latents", "decoder_latents"}:
            outputs["latents"] = outputs["decoder_latents"] = self._unpacked(job, [state.latents for state in states])
        return {name: value for name, value in outputs.items() if name in job.wanted}

    def _unpacked(self, job: Job, tokens: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        factor = self._checkpoint.family.vae_scale_factor
        return np.stack([unpack_latents(each, job.height // factor, job.width // factor) for each in tokens])


class StreamingSamplerModel(SamplerModel):
    """`sampler_stream`, under Triton's decoupled policy."""

    streams = True


def _column(values: Sequence[int], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    return np.array(values, dtype).reshape(-1, 1)
