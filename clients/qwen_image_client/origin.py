"""Where a row's recipe begins: what was asked for; the server's answer makes it whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from qwen_image_client.call import Task, Tensors, told_id
from qwen_image_client.errors import InvalidRequest
from qwen_image_client.outputs import used
from qwen_image_client.pictures import sha256
from qwen_image_client.recipe import Recipe
from qwen_image_client.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Origin:
    """One row as it was asked for.

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

    def recipe(self, tensors: Tensors, index: int) -> Recipe:
        """The recipe of the row, the `index`-th of its request."""
        return Recipe(
            prompt=self.row.prompt,
            negative_prompt=self.row.negative_prompt,
            seed=used(tensors, "seed", index, int),
            num_inference_steps=used(tensors, "num_inference_steps", index, int),
            true_cfg_scale=used(tensors, "true_cfg_scale", index, float),
            width=used(tensors, "width", index, int),
            height=used(tensors, "height", index, int),
            sigmas=None if self.row.sigmas is None else tuple(self.row.sigmas),
            requested_num_inference_steps=self.row.num_inference_steps,
            strength=self.row.strength,
            image_sha256=self.image_sha256,
            mask_sha256=self.mask_sha256,
            task=self.task,
            model=self.model,
            request_id=self.request_id,
        )


def origins(rows: Sequence[GenerationRequest], task: Task, model: str, request_id: str) -> tuple[Origin, ...]:
    """One a row.

    Raises:
        InvalidRequest: a row has what its task doesn't take, or lacks what it needs.
    """
    digests: dict[bytes, str] = {}  # rows of one call share their pictures

    def digest(content: bytes) -> str:
        if content not in digests:
            digests[content] = sha256(content)
        return digests[content]

    for row in rows:
        _check(row, task)
    return tuple(
        Origin(
            row=row,
            task=task,
            model=model,
            request_id=told_id(request_id),  # pictures are passed on
            image_sha256=tuple(digest(picture) for picture in row.pictures),
            mask_sha256=None if row.mask is None else digest(row.mask),
        )
        for row in rows
    )


def _check(row: GenerationRequest, task: Task) -> None:
    """An edit's model has no such inputs, and Triton's words for that tell little."""
    if task == "edit":
        for name in ("strength", "mask_image"):
            if getattr(row, name) is not None:
                raise InvalidRequest(f"{name} is given: an edit takes none, it changes what the prompt says")
        if row.input_image is None:
            raise InvalidRequest("an edit needs input_image: the picture to edit, or several")
