"""One call's rows, from the request that asks for them to the images and previews that answer it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
from PIL import Image

from qwen_image_client.call import Call, Models, Tensors, new_request_id
from qwen_image_client.errors import InvalidRequest, ServerError
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.recipe import Recipe
from qwen_image_client.request import GenerationRequest
from qwen_image_client.tensors import input_tensors
from qwen_image_client.values import int32, text

Output: TypeAlias = Literal["image", "latents"]
Number = TypeVar("Number", int, float)
_USED = ("seed", "num_inference_steps", "true_cfg_scale", "width", "height")
_USED_OUTPUTS = tuple(f"used_{name}" for name in _USED)  # one ensemble can't have an input and an output of one name
_STEP = "step"


@dataclass(frozen=True, slots=True)
class Job:
    """The rows of one request, and the call that carries them.

    Attributes:
        model: the model the recipes name, the same whether the call streams or not.
    """

    rows: tuple[GenerationRequest, ...]
    model: str
    call: Call

    @classmethod
    def unary(
        cls, models: Models, rows: Sequence[GenerationRequest], outputs: Sequence[Output], request_id: str | None
    ) -> "Job":
        """A job with one answer.

        Raises:
            InvalidRequest: the rows can't share a request, or an output doesn't exist.
        """
        names = (*_wanted(outputs), *_USED_OUTPUTS)
        return cls(tuple(rows), models.generate, _call(models.generate, rows, names, request_id))

    @classmethod
    def streaming(
        cls,
        models: Models,
        rows: Sequence[GenerationRequest],
        outputs: Sequence[Output],
        request_id: str | None,
        preview_every: int | None,
    ) -> "Job":
        """A job that answers after every step; raises as `unary` does."""
        names = (*_wanted(outputs), *_USED_OUTPUTS, _STEP)
        call = _call(models.stream, rows, names, request_id)
        every = preview_every if "image" in outputs else 0  # a stream decodes what it is told to, wanted or not
        if every is not None:
            tensor = np.full((len(rows), 1), int32("preview_every", every), np.int32)
            call = replace(call, inputs={**call.inputs, "preview_every": tensor})
        return cls(tuple(rows), models.generate, call)

    def images(self, tensors: Tensors) -> list[GeneratedImage]:
        """One image a row, from output tensors with the batch dimension first."""
        return [
            GeneratedImage(
                image=Image.fromarray(tensors["image"][index]) if _is_decoded(tensors) else None,
                latents=tensors["latents"][index].copy() if "latents" in tensors else None,
                recipe=self._recipe(tensors, index),
            )
            for index in range(len(self.rows))
        ]

    def preview(self, tensors: Tensors) -> Preview:
        """The preview in one response's output tensors."""
        steps, totals = tensors[_STEP], tensors["used_num_inference_steps"]
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

    def _recipe(self, tensors: Tensors, index: int) -> Recipe:
        row = self.rows[index]
        return Recipe(
            prompt=row.prompt,
            negative_prompt=row.negative_prompt,
            seed=_used(tensors, "seed", index, int),
            num_inference_steps=_used(tensors, "num_inference_steps", index, int),
            true_cfg_scale=_used(tensors, "true_cfg_scale", index, float),
            width=_used(tensors, "width", index, int),
            height=_used(tensors, "height", index, int),
            sigmas=None if row.sigmas is None else tuple(row.sigmas),
            model=self.model,
            request_id=self.call.request_id,
        )


def _used(tensors: Tensors, name: str, index: int, kind: Callable[[str], Number]) -> Number:
    """What the server really used; by way of text, so that FP32's 4.1 isn't 4.0999999."""
    return kind(str(tensors[f"used_{name}"][index, 0]))


def _is_decoded(tensors: Tensors) -> bool:
    return "image" in tensors and tensors["image"].size > 0


def _wanted(outputs: Sequence[Output]) -> tuple[str, ...]:
    if isinstance(outputs, str) or not set(outputs) <= set(get_args(Output)):
        raise InvalidRequest(f"outputs={outputs!r} must be a sequence of {get_args(Output)}")
    return tuple(dict.fromkeys(outputs))


def _call(model: str, rows: Sequence[GenerationRequest], outputs: tuple[str, ...], request_id: str | None) -> Call:
    if request_id == "":
        raise InvalidRequest("request_id is empty; leave it out for a random one")
    name = new_request_id() if request_id is None else text("request_id", request_id)
    return Call(model, input_tensors(rows), outputs, name)
