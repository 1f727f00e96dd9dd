"""One call's rows, from the request for them to the images and previews that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen_image_client import _tensors
from qwen_image_client._call import Call, Models, Tensors, new_request_id, short_id
from qwen_image_client._errors import InvalidRequest, ServerError
from qwen_image_client._images import GeneratedImage, Preview
from qwen_image_client._recipe import AS_SENT, Recipe
from qwen_image_client._request import GenerationRequest
from qwen_image_client._tensors import STEP, USED_OUTPUTS, Output, read_all_used
from qwen_image_client._wire_types import int32, sha256, text
from qwen_image_contract import ROW_INPUTS, Task

_NO_PREVIEWS: Mapping[str, int | None] = {"preview_every": 0}


@dataclass(frozen=True, slots=True)
class RecipeDraft:
    """One row's recipe before the server has answered: what was requested.

    Attributes:
        request_id: the recipe's, the first half of the request's.
        model: the model the recipe names, the same whether the call streams or not.
        image_sha256, mask_sha256: worked out once, since a stream's every preview carries the recipe.
    """

    row: GenerationRequest
    task: Task
    model: str
    request_id: str
    image_sha256: tuple[str, ...]
    mask_sha256: str | None

    def finish(self, tensors: Tensors, index: int) -> Recipe:
        """The recipe of the row, the `index`-th of its request, with what the server used."""
        return Recipe(
            **{each.name: getattr(self.row, each.name) for each in AS_SENT},
            **read_all_used(tensors, index),
            requested_num_inference_steps=self.row.num_inference_steps,
            image_sha256=self.image_sha256,
            mask_sha256=self.mask_sha256,
            task=self.task,
            model=self.model,
            request_id=self.request_id,
        )


def draft_recipes(
    rows: Sequence[GenerationRequest], task: Task, model: str, request_id: str
) -> tuple[RecipeDraft, ...]:
    """One a row.

    Raises:
        InvalidRequest: a row has what its task doesn't take, or lacks what it needs.
    """
    digests: dict[bytes, str] = {}  # rows of one call share their images

    def digest(content: bytes) -> str:
        if content not in digests:
            digests[content] = sha256(content)
        return digests[content]

    for row in rows:
        _check(row, task)
    return tuple(
        RecipeDraft(
            row=row,
            task=task,
            model=model,
            request_id=short_id(request_id),  # an image is passed on to others
            image_sha256=tuple(digest(image) for image in row.pictures),
            mask_sha256=None if row.mask is None else digest(row.mask),
        )
        for row in rows
    )


def _check(row: GenerationRequest, task: Task) -> None:
    """An edit's model has no such inputs, and Triton's message for that explains little."""
    if task == "edit":
        for each in ROW_INPUTS:
            if task not in each.tasks and getattr(row, each.name) is not None:
                raise InvalidRequest(f"{each.name} is given: an edit takes none, it changes what the prompt says")
        if row.input_image is None:
            raise InvalidRequest("an edit needs input_image: the picture to edit, or several")


@dataclass(frozen=True, slots=True)
class Job:
    """The rows of one request, and the call that carries them.

    Attributes:
        drafts: the recipe of each row before the server has answered.
    """

    drafts: tuple[RecipeDraft, ...]
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
        names = (*_tensors.choose_outputs(outputs, rows, task, is_stream=False), *USED_OUTPUTS)
        call = _call(models.unary(task), rows, names, request_id)
        return cls(draft_recipes(rows, task, models.unary(task), call.request_id), call)

    @classmethod
    def streaming(
        cls,
        models: Models,
        rows: Sequence[GenerationRequest],
        outputs: Sequence[Output],
        request_id: str | None,
        preview_every: int | None = None,
        num_previews: int | None = None,
        task: Task = "generate",
    ) -> "Job":
        """A job that answers after every step; raises as `unary` does."""
        names = (*_tensors.choose_outputs(outputs, rows, task, is_stream=True), *USED_OUTPUTS, STEP)
        call = _call(models.stream(task), rows, names, request_id)
        if preview_every is not None and num_previews is not None:
            raise InvalidRequest(f"preview_every={preview_every} and num_previews={num_previews}: give one of them")
        # A stream decodes as it is told to, whatever the outputs.
        wanted = {"preview_every": preview_every, "num_previews": num_previews} if "image" in outputs else _NO_PREVIEWS
        previews = {
            name: np.full((len(rows), 1), int32(name, value), np.int32)
            for name, value in wanted.items()
            if value is not None
        }
        call = replace(call, inputs={**call.inputs, **previews})
        return cls(draft_recipes(rows, task, models.unary(task), call.request_id), call)

    def read_images(self, tensors: Tensors) -> list[GeneratedImage]:
        """One image a row, from output tensors with the batch dimension first."""
        return [
            GeneratedImage(
                image=_tensors.read_image(tensors, index),
                latents=_tensors.read_latents(tensors, index),
                recipe=draft.finish(tensors, index),
                mask=_tensors.read_mask(tensors, index),
            )
            for index, draft in enumerate(self.drafts)
        ]

    def read_preview(self, tensors: Tensors) -> Preview:
        """The preview in one response's output tensors."""
        steps, totals = tensors[STEP], tensors["used_num_inference_steps"]
        return Preview(
            step=int(steps.max()),
            num_inference_steps=int(totals.max()),
            images=self.read_images(tensors),
            is_final=bool((steps >= totals).all()),
            request_id=self.call.request_id,
        )

    def check_final(self, final: Preview | None) -> Preview:
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
    return Call(model, _tensors.make_input_tensors(rows), outputs, name)
