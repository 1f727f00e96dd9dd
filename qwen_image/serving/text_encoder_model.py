"""Prompts and pictures to prompt_embeds: Qwen2.5-VL on vLLM. Engine arguments are in model.json beside this file."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import NotFinite
from qwen_image.finite import check_finite
from qwen_image.images import unpacked
from qwen_image.serving.backend import ModelSettings, error_response, give_way, log_warm
from qwen_image.serving.gpu_health import end_if_gpu_is_lost
from qwen_image.serving.granted import checked_costs, grants_of_this_server
from qwen_image.serving.metrics import Metrics
from qwen_image.serving.model_process import be_watched
from qwen_image.serving.tensors import optional_array, response, text_column
from qwen_image.text.condition_images import ConditionPicture
from qwen_image.text.encoder import Prompt, TextEncoder

NAMES = ("prompt", "negative_prompt")
Embeds = NDArray[np.float32]  # (tokens, dim)
Columns = dict[str, list[Prompt | None]]  # by name, of every row; None: not in force


class TextEncoderModel:
    """All prompts of one `execute` go through the engine together."""

    def initialize(self, args: Mapping[str, str]) -> None:
        start = time.perf_counter()
        settings = ModelSettings.from_args(args)
        give_way(settings.integer("niceness"))
        self._checkpoint = settings.checkpoint()
        self._grants = grants_of_this_server()
        engine_arguments = json.loads((settings.folder / "model.json").read_text())
        self._encoder = TextEncoder(self._checkpoint, engine_arguments, settings.integer("cache_bytes"))
        self._nothing = np.zeros((0, self._checkpoint.prompt_embeds_dim), np.float32)
        self._metrics = Metrics(
            settings.name,
            "qwen_image_text_tokens_total",
            "qwen_image_text_cache_hits_total",
            "qwen_image_text_cache_misses_total",
            "qwen_image_not_finite_images_total",
        )
        log_warm(settings.name, time.perf_counter() - start)
        be_watched(settings.name)

    def finalize(self) -> None:
        self._metrics.close()

    def execute(self, requests: list[Any]) -> list[Any]:
        answers: dict[int, Any] = {}
        read: dict[int, Columns] = {}
        for position, request in enumerate(requests):
            try:
                read[position] = self._read(request)
            except Exception as error:  # a bad prompt or picture never sinks its batch-mates
                answers[position] = error_response(error, request.request_id())
        columns = [column for of_request in read.values() for column in of_request.values()]
        prompts = [prompt for column in columns for prompt in column if prompt is not None]
        try:
            states = iter(self._encode(prompts))
        except Exception as error:  # the engine failed: those it had taken get its error, the others keep their own
            end_if_gpu_is_lost([error])
            answers |= {position: error_response(error, requests[position].request_id()) for position in read}
            read = {}
        for position, read_columns in read.items():
            of_request = {
                name: [self._nothing if prompt is None else next(states) for prompt in column]
                for name, column in read_columns.items()
            }
            answers[position] = self._answer(requests[position], of_request)
        return [answers[position] for position in range(len(requests))]

    def _answer(self, request: Any, columns: Mapping[str, Sequence[Embeds]]) -> Any:
        try:
            for name, column in columns.items():
                for row, states in enumerate(column):
                    check_finite(states, "text_encoder", f"states of {name} in row {row}")
        except NotFinite as error:
            self._metrics.add("qwen_image_not_finite_images_total", len(columns["prompt"]))
            return error_response(error, request.request_id())
        return self._response(columns)

    def _encode(self, prompts: Sequence[Prompt]) -> list[Embeds]:
        hits, misses = self._encoder.cache.hits, self._encoder.cache.misses
        states = self._encoder.encode(prompts)
        self._metrics.add("qwen_image_text_cache_hits_total", self._encoder.cache.hits - hits)
        self._metrics.add("qwen_image_text_cache_misses_total", self._encoder.cache.misses - misses)
        return states

    def _read(self, request: Any) -> Columns:
        """Columns of prompts by name; None for a negative prompt that is not in force, once it is checked."""
        checked_costs(request, self._grants)  # prompts and pictures are checked here
        columns = {name: column for name in NAMES if (column := text_column(request, name)) is not None}
        pictures = read_pictures(request, len(columns["prompt"]))
        read: Columns = {
            name: [self._encoder.prompt(name, *row) for row in zip(column, pictures, strict=True)]
            for name, column in columns.items()
        }
        guided = optional_array(request, "uses_guidance")
        if guided is not None and "negative_prompt" in read:
            rows = zip(read["negative_prompt"], guided[:, 0], strict=True)
            read["negative_prompt"] = [prompt if is_used else None for prompt, is_used in rows]
        return read

    def _response(self, columns: Mapping[str, Sequence[Embeds]]) -> Any:
        outputs: dict[str, NDArray[Any]] = {}
        rows = len(columns["prompt"])
        for name in NAMES:
            states = columns.get(name, [self._nothing] * rows)
            outputs[f"{name}_embeds"], outputs[f"{name}_embeds_mask"] = pad(states)
            self._metrics.add("qwen_image_text_tokens_total", sum(map(len, states)))
        return response(**outputs)


def read_pictures(request: Any, rows: int) -> list[Sequence[ConditionPicture]]:
    """Of every row those that both of its prompts see, in order. An empty element is no picture."""
    packed = optional_array(request, "condition_pictures")
    if packed is None:
        return [()] * rows
    return [[ConditionPicture.of(unpacked(element)) for element in row if element] for row in packed]


def pad(states: Sequence[Embeds]) -> tuple[Embeds, NDArray[np.bool_]]:
    """Rows of (T_i, dim) -> (B, T, dim), right-padded with zeros, and the mask (B, T).

    Never without tokens: an absent negative prompt is one masked token, so that no tensor on its way is empty.
    """
    lengths = np.array([len(each) for each in states])
    longest = max(1, lengths.max())
    embeds = np.zeros((len(states), longest, states[0].shape[1]), np.float32)
    for row, each in enumerate(states):
        embeds[row, : len(each)] = each
    return embeds, np.arange(longest)[None] < lengths[:, None]
