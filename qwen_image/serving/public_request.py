"""The public contract's inputs, read from a request to an ensemble."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from qwen_image.errors import InvalidRequest
from qwen_image.families import Family
from qwen_image.params import GenerationParams, Limits
from qwen_image.serving.backend import ModelSettings
from qwen_image.serving.tensors import optional_array, text_column

SCALARS = ("height", "width", "num_inference_steps", "true_cfg_scale", "seed")


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


def read_params(request: Any, default_size: tuple[int, int], family: Family) -> list[GenerationParams]:
    """One GenerationParams a row; what was left out takes its default. InvalidRequest if rows differ in size."""
    prompts = text_column(request, "prompt")
    assert prompts is not None
    negative_prompts = text_column(request, "negative_prompt")
    columns = {name: optional_array(request, name) for name in SCALARS}
    sigmas = optional_array(request, "sigmas")
    _refuse_unequal_sizes(columns)
    if sigmas is not None and columns["num_inference_steps"] is not None:
        _refuse_contradiction(columns["num_inference_steps"], sigmas)
    rows = []
    for row, prompt in enumerate(prompts):
        given = {name: column[row, 0].item() for name, column in columns.items() if column is not None}
        rows.append(
            GenerationParams(
                prompt=prompt,
                negative_prompt=None if negative_prompts is None else negative_prompts[row],
                sigmas=None if sigmas is None else tuple(sigmas[row].tolist()),
                **{"height": default_size[0], "width": default_size[1], **given},
            )
        )
    return rows


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
