"""The public contract's inputs, read from a request to an ensemble."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from qwen_image.errors import InvalidRequest
from qwen_image.request.params import GenerationParams, check_previews
from qwen_image.serving.backend import ModelSettings
from qwen_image.serving.input_images import PictureReader, RowPictures
from qwen_image.serving.tensors import optional_array, text_column
from qwen_image_contract import INPUTS, Limits, Travel, default_of

NUMBERS = [each for each in INPUTS if each.travel is Travel.VALIDATED]


def limits_from(settings: ModelSettings) -> Limits:
    """The limits that the repository was rendered with."""
    return Limits(**{each.name: type(getattr(Limits(), each.name))(settings[each.name]) for each in fields(Limits)})


def refuse_unknown_parameters(request: Any) -> None:
    """Request parameters carry nothing in this contract; one that is sent would be ignored, so it is refused."""
    unknown = sorted(json.loads(request.parameters() or "{}"))
    if unknown:
        raise InvalidRequest(
            f"unknown request parameter{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}: "
            "every option is an input tensor, named as in the model's metadata"
        )


def check_stream_inputs(request: Any) -> None:
    """The sampler reads them where they came from; here a request that it can't serve ends at once."""
    given = {name: _shared_value(request, name) for name in ("preview_every", "num_previews")}
    check_previews(**given)


def _shared_value(request: Any, name: str) -> int | None:
    given = optional_array(request, name)
    if given is None:
        return None
    if len(np.unique(given)) > 1:
        raise InvalidRequest(
            f"{name} differs between rows ({', '.join(map(str, given.reshape(-1)))}): rows of one request are "
            "answered together, so they share it; send other values as requests of their own"
        )
    return int(given[0, 0])


def read_params(request: Any, pictures: Sequence[RowPictures], reader: PictureReader) -> list[GenerationParams]:
    """One GenerationParams a row; what was left out takes its default. InvalidRequest if rows differ in size."""
    prompts = text_column(request, "prompt")
    assert prompts is not None
    negative_prompts = text_column(request, "negative_prompt")
    columns = {each.name: optional_array(request, each.name) for each in NUMBERS}
    sigmas = optional_array(request, "sigmas")
    strengths = optional_array(request, "strength")
    _refuse_unequal_sizes(columns)
    left_out = {"height", "width"} - _given(columns)
    size = reader.checked_size(pictures, left_out) if left_out else {}
    if sigmas is not None and columns["num_inference_steps"] is not None:
        _refuse_contradiction(columns["num_inference_steps"], sigmas)
    rows = []
    for row, prompt in enumerate(prompts):
        given = {name: _number(column[row, 0]) for name, column in columns.items() if column is not None}
        rows.append(
            GenerationParams(
                prompt=prompt,
                negative_prompt=None if negative_prompts is None else negative_prompts[row],
                sigmas=None if sigmas is None else tuple(sigmas[row].tolist()),
                strength=_strength(strengths, row, pictures[row], reader),
                reference_pixels=sum(width * height for width, height in reader.reference_sizes(pictures[row])),
                **{**size, **given},
            )
        )
    return rows


def _given(columns: Mapping[str, Any]) -> set[str]:
    return {name for name, column in columns.items() if column is not None}


def _strength(strengths: Any, row: int, pictures: RowPictures, reader: PictureReader) -> float | None:
    """In force where a row starts from a picture; given without one it would be ignored, so it is refused."""
    starts = reader.edit is None and bool(pictures.pictures)
    if strengths is None:
        return default_of("strength") if starts else None
    if not starts:
        raise InvalidRequest(
            f"strength={strengths[row, 0]:g} of row {row} comes without input_image: it says how far to go from it"
        )
    return float(_number(strengths[row, 0]))


def _number(value: Any) -> Any:
    """0.6 as it was meant: as float32 it is a little more, and 5 steps of it too."""
    return float(str(value)) if value.dtype == np.float32 else value.item()


def _refuse_unequal_sizes(columns: dict[str, Any]) -> None:
    for name in ("height", "width"):
        if columns[name] is not None and len(np.unique(columns[name])) > 1:
            raise InvalidRequest(
                f"{name} differs between rows ({', '.join(map(str, columns[name].reshape(-1)))}): rows of one request "
                "share their size; send other sizes as requests of their own, they run at the same time"
            )


def _refuse_contradiction(steps: Any, sigmas: Any) -> None:
    if (steps != sigmas.shape[1]).any():
        raise InvalidRequest(
            f"num_inference_steps={int(steps[steps != sigmas.shape[1]][0])} but sigmas has {sigmas.shape[1]} values; "
            "leave num_inference_steps out or make them agree"
        )
