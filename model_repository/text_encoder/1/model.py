"""Prompts to prompt_embeds: Qwen2.5-VL on vLLM. The engine's arguments are in model.json beside this file."""

import json
import time

import numpy as np

from qwen_image.checkpoint import open_checkpoint
from qwen_image.serving.backend import ModelSettings, error_response, log_warm
from qwen_image.serving.metrics import Metrics
from qwen_image.serving.tensors import response, text_column
from qwen_image.text_encoder import TextEncoder

NAMES = ("prompt", "negative_prompt")


class TritonPythonModel:
    """All prompts of one `execute` go through the engine together."""

    def initialize(self, args):
        start = time.perf_counter()
        settings = ModelSettings.from_args(args)
        self._checkpoint = open_checkpoint(settings["checkpoint"])
        engine_arguments = json.loads((settings.folder / "model.json").read_text())
        self._encoder = TextEncoder(self._checkpoint, engine_arguments, settings.integer("cache_bytes"))
        self._metrics = Metrics(
            settings.name,
            "qwen_image_text_tokens_total",
            "qwen_image_text_cache_hits_total",
            "qwen_image_text_cache_misses_total",
        )
        log_warm(settings.name, time.perf_counter() - start)

    def finalize(self):
        self._metrics.close()

    def execute(self, requests):
        answers, tokenized = {}, {}
        for position, request in enumerate(requests):
            try:
                tokenized[position] = self._tokenized(request)
            except Exception as error:  # a bad prompt never sinks its batch-mates
                answers[position] = error_response(error, request.request_id())
        prompts = [token_ids for columns in tokenized.values() for column in columns.values() for token_ids in column]
        try:
            states = iter(self._encode(prompts))
        except Exception as error:  # the engine failed: those it had taken get its error, the others keep their own
            answers |= {position: error_response(error, requests[position].request_id()) for position in tokenized}
            tokenized = {}
        for position, columns in tokenized.items():
            answers[position] = self._response(
                {name: [next(states) for _ in column] for name, column in columns.items()}
            )
        return [answers[position] for position in range(len(requests))]

    def _encode(self, prompts):
        hits, misses = self._encoder.cache.hits, self._encoder.cache.misses
        states = self._encoder.encode(prompts)
        self._metrics.add("qwen_image_text_cache_hits_total", self._encoder.cache.hits - hits)
        self._metrics.add("qwen_image_text_cache_misses_total", self._encoder.cache.misses - misses)
        return states

    def _tokenized(self, request):
        columns = {name: text_column(request, name) for name in NAMES}
        return {
            name: [self._encoder.tokenize(name, text) for text in column]
            for name, column in columns.items()
            if column is not None
        }

    def _response(self, columns):
        outputs, rows = {}, len(columns["prompt"])
        for name in NAMES:
            states = columns.get(name, [np.zeros((0, self._checkpoint.prompt_embeds_dim), np.float32)] * rows)
            outputs[f"{name}_embeds"], outputs[f"{name}_embeds_mask"] = padded(states)
            self._metrics.add("qwen_image_text_tokens_total", sum(map(len, states)))
        return response(**outputs)


def padded(states):
    """Rows of (T_i, dim) -> (B, T, dim), right-padded with zeros, and the mask (B, T).

    Never without tokens: an absent negative prompt is one masked token, so that no tensor on its way is empty.
    """
    lengths = np.array([len(each) for each in states])
    longest = max(1, lengths.max())
    embeds = np.zeros((len(states), longest, states[0].shape[1]), np.float32)
    for row, each in enumerate(states):
        embeds[row, : len(each)] = each
    return embeds, np.arange(longest)[None] < lengths[:, None]
