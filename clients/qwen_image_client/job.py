"""One call's rows, from the request that asks for them to the images and previews that answer it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen_image_client import outputs as answers
from qwen_image_client.call import Call, Models, Task, Tensors, new_request_id
from qwen_image_client.errors import InvalidRequest, ServerError
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.origin import Origin, origins
from qwen_image_client.outputs import STEP, USED_OUTPUTS, Output
from qwen_image_client.request import GenerationRequest
from qwen_image_client.tensors import input_tensors
from qwen_image_client.values import int32, text


@dataclass(frozen=True, slots=True)
class Job:
    """The rows of one request, and the call that carries them.

    Attributes:
        origins: what the recipe of each row says before the server has answered.
    """

    origins: tuple[Origin, ...]
    call: Call

    @classmethod
    def unary(
        cls,
        models: Models,
        rows: Sequence[GenerationRequest],
        outputs: Sequence[Output],
        request_id: str | None,
        task: Task = "generate",
    ) -> "Job":
        """A job with one answer.

        Raises:
            InvalidRequest: the rows can't share a request, don't fit the task, or an output doesn't exist.
        """
        names = (*answers.wanted(outputs, rows, task, is_stream=False), *USED_OUTPUTS)
        call = _call(models.unary(task), rows, names, request_id)
        return cls(origins(rows, task, models.unary(task), call.request_id), call)

    @classmethod
    def streaming(
        cls,
        models: Models,
        rows: Sequence[GenerationRequest],
        outputs: Sequence[Output],
        request_id: str | None,
        preview_every: int | None,
        task: Task = "generate",
    ) -> "Job":
        """A job that answers after every step; raises as `unary` does."""
        names = (*answers.wanted(outputs, rows, task, is_stream=True), *USED_OUTPUTS, STEP)
        call = _call(models.stream(task), rows, names, request_id)
        every = preview_every if "image" in outputs else 0  # a stream decodes what it is told to, wanted or not
        if every is not None:
            tensor = np.full((len(rows), 1), int32("preview_every", every), np.int32)
            call = replace(call, inputs={**call.inputs, "preview_every": tensor})
        return cls(origins(rows, task, models.unary(task), call.request_id), call)

    def images(self, tensors: Tensors) -> list[GeneratedImage]:
        """One image a row, from output tensors with the batch dimension first."""
        return [
            GeneratedImage(
                image=answers.image(tensors, index),
                latents=answers.latents(tensors, index),
                recipe=origin.recipe(tensors, index),
                mask=answers.mask(tensors, index),
            )
            for index, origin in enumerate(self.origins)
        ]

    def preview(self, tensors: Tensors) -> Preview:
        """The preview in one response's output tensors."""
        steps, totals = tensors[STEP], tensors["used_num_inference_steps"]
        return Preview(
            step=int(steps.max()),
            num_inference_steps=int(totals.max()),
            images=self.images(tensors),
            is_final=bool((steps >= totals).all()),
            request_id=self.call.request_id,
        )

    def checked_final(self, final: Preview | None) -> Preview:
        """The final preview.

        Raises:
            ServerError: the stream ended without one.
        """
        if final is None:
            raise ServerError("the stream ended before its last step", request_id=self.call.request_id)
        return final


def _call(model: str, rows: Sequence[GenerationRequest], outputs: tuple[str, ...], request_id: str | None) -> Call:
    if request_id == "":
        raise InvalidRequest("request_id is empty; leave it out for a random one")
    name = new_request_id() if request_id is None else text("request_id", request_id)
    return Call(model, input_tensors(rows), outputs, name)
