"""One request to the sampler: what the validator resolved and the text encoder read, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint
from qwen_image.errors import InvalidRequest
from qwen_image.images import packed_bytes, unpacked
from qwen_image.request.deadline import Deadline
from qwen_image.request.grants import ONLY_FROM_INSIDE, Cost, Grants
from qwen_image.sampling.guidance import guided_steps
from qwen_image.sampling.previews import Previews
from qwen_image.serving.granted import checked_costs
from qwen_image.serving.tensors import array, optional_array
from qwen_image_contract import INPUTS, Travel, default_of

ROW_NUMBERS = [each.name for each in INPUTS if each.travel is Travel.VALIDATED and not each.same_in_all_rows]


@dataclass(frozen=True, slots=True)
class Image:
    """One row: one image."""

    seed: int
    grid: tuple[int, int]  # token rows and columns
    num_inference_steps: int
    true_cfg_scale: float
    cfg_start: float
    cfg_end: float
    prompt_embeds: NDArray[np.float32]  # (T, dim)
    negative_prompt_embeds: NDArray[np.float32]  # (T', dim); no tokens: guidance is off
    sigmas: tuple[float, ...] | None  # unshifted, as given
    pictures: tuple[NDArray[np.uint8], ...] = ()  # each (H, W, 3): references, or the one to start from
    first_step: int = 0  # steps that are left out because the image starts from a picture
    mask: NDArray[np.uint8] | None = None  # (height, width): 0 where that picture is kept

    @property
    def steps(self) -> int:
        """That are really made."""
        return self.num_inference_steps - self.first_step

    @property
    def uses_guidance(self) -> bool:
        return len(self.negative_prompt_embeds) > 0

    @property
    def image_tokens(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def _guided(self) -> range:
        return guided_steps(self.steps, self.cfg_start, self.cfg_end)

    def scale_of_step(self, step: int) -> float:
        """`true_cfg_scale` in the steps that are guided, numbered from 0; 1, which is none, in the others."""
        return self.true_cfg_scale if step in self._guided else 1.0

    def steps_of_one_scale(self, step: int) -> int:
        """How many steps from this one on share its scale."""
        changes = (change for change in (self._guided.start, self._guided.stop) if change > step)
        return min(changes, default=self.steps) - step


@dataclass(frozen=True, slots=True)
class Job:
    """All rows of one request. `request` is kept: the arrays lie in its shared memory."""

    request: Any
    request_id: str
    width: int
    height: int
    images: tuple[Image, ...]
    wanted: frozenset[str]  # names of the outputs; of an ensemble, all, whatever its caller asked for
    previews: Previews  # streams only
    decoder_inputs: Mapping[str, NDArray[np.uint8]]  # what the VAE puts back into the pictures
    deadline: Deadline

    @property
    def step_counts(self) -> tuple[int, ...]:
        return tuple(image.steps for image in self.images)


def read_job(request: Any, checkpoint: Checkpoint, grants: Grants) -> Job:
    """A job from the request of the ensemble. InvalidRequest for more than the validator has granted."""
    costs = checked_costs(request, grants)
    family = checkpoint.family
    heights, widths = array(request, "height"), array(request, "width")
    numbers = {name: array(request, name) for name in ROW_NUMBERS}
    sigmas = optional_array(request, "sigmas")
    height, width = int(heights[0, 0]), int(widths[0, 0])
    pictures, first_steps = optional_array(request, "pictures"), optional_array(request, "first_step")
    masks, deadline_ns = optional_array(request, "mask"), optional_array(request, "deadline_ns")
    images = tuple(
        Image(
            grid=(height // family.size_multiple, width // family.size_multiple),
            **{name: column[row, 0].item() for name, column in numbers.items()},
            prompt_embeds=_states(request, "prompt_embeds", row),
            negative_prompt_embeds=_states(request, "negative_prompt_embeds", row),
            sigmas=None if sigmas is None else tuple(map(float, sigmas[row])),
            pictures=() if pictures is None else tuple(unpacked(each) for each in pictures[row] if each),
            first_step=0 if first_steps is None else int(first_steps[row, 0]),
            mask=None if masks is None or masks[row].shape != (height, width) else masks[row],
        )
        for row in range(len(heights))
    )
    for image, cost in zip(images, costs, strict=True):
        _check_cost(image, cost, (height, width), checkpoint.max_text_tokens)
    wanted = frozenset(request.requested_output_names())
    return Job(
        request=request,
        request_id=request.request_id(),
        width=width,
        height=height,
        images=images,
        wanted=wanted,
        previews=_previews(request),
        decoder_inputs=_decoder_inputs(request),
        deadline=Deadline(request.timeout(), 0 if deadline_ns is None else int(deadline_ns[0, 0])),
    )


def _check_cost(image: Image, cost: Cost | None, size: tuple[int, int], max_text_tokens: int) -> None:
    """A caller who got a grant from the validator itself may send it with other tensors than the ensemble does."""
    if cost is None:
        return
    steps, pictures = image.num_inference_steps, sum(map(packed_bytes, image.pictures))
    tokens = max(len(image.prompt_embeds), len(image.negative_prompt_embeds))
    sigmas = steps if image.sigmas is None else len(image.sigmas)
    if Cost(*size, steps, image.first_step, pictures) != cost or tokens > max_text_tokens or sigmas != steps:
        raise InvalidRequest(f"the request is not the one that the validator granted: {ONLY_FROM_INSIDE}")


def _decoder_inputs(request: Any) -> dict[str, NDArray[np.uint8]]:
    given = {name: optional_array(request, name) for name in ("kept_image", "mask")}
    return {name: value for name, value in given.items() if value is not None}


def _previews(request: Any) -> Previews:
    every, number = (optional_array(request, name) for name in ("preview_every", "num_previews"))
    return Previews(
        every=int(default_of("preview_every")) if every is None else int(every[0, 0]),
        number=None if number is None else int(number[0, 0]),
    )


def _states(request: Any, name: str, row: int) -> NDArray[np.float32]:
    """One row's text states without the padding that unequal rows of a request have."""
    states, mask = array(request, name), array(request, f"{name}_mask")
    return np.asarray(states[row, : int(mask[row].sum())])
