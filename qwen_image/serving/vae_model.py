"""The VAE's halves as Triton models: computed here in PyTorch, or row by row by a plan on Triton's TensorRT backend."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.gpu_memory import gpu_memory
from qwen_image.serving.backend import ModelSettings, error_response, give_way, log_warm
from qwen_image.serving.bls import call_and_wait
from qwen_image.serving.lost_gpu import end_if_gpu_is_lost
from qwen_image.serving.model_process import be_watched
from qwen_image.serving.tensors import array, response

Outputs = Mapping[str, NDArray[Any]]
KEPT_BYTES = 2 << 30  # of GPU memory that PyTorch holds for the next picture; the transformer may need the rest


class VaeModel(ABC):
    """The dynamic batcher hands over requests of one shape."""

    source: str  # the input
    outputs: Sequence[str]

    def initialize(self, args: Mapping[str, str]) -> None:
        start = time.perf_counter()
        settings = ModelSettings.from_args(args)
        give_way(settings.integer("niceness"))
        self._plan = settings["plan"]
        if not self._plan:
            torch.set_num_threads(settings.integer("threads"))
            self.load(settings.checkpoint(), settings.load_format, settings.device, getattr(torch, settings["dtype"]))
        log_warm(settings.name, time.perf_counter() - start, gpu_memory())
        be_watched(settings.name)

    @abstractmethod
    def load(self, checkpoint: Checkpoint, load_format: LoadFormat, device: str, dtype: torch.dtype) -> None:
        """Load the half in PyTorch and compute once."""

    @abstractmethod
    def compute(self, rows: NDArray[Any]) -> Outputs:
        """All outputs for rows of the input."""

    def execute(self, requests: list[Any]) -> list[Any]:
        if self._plan:
            return [self._answer_by_plan(request) for request in requests]
        rows = [array(request, self.source) for request in requests]
        try:
            computed = self.compute(np.concatenate(rows))
        except Exception as error:
            end_if_gpu_is_lost([error])
            return [error_response(error, request.request_id()) for request in requests]
        finally:
            _give_memory_back()
        ends = np.cumsum([len(each) for each in rows])[:-1]
        parts = zip(*(np.split(computed[name], ends) for name in self.outputs), strict=True)
        return [
            self._answer(request, dict(zip(self.outputs, part, strict=True)))
            for request, part in zip(requests, parts, strict=True)
        ]

    def _answer_by_plan(self, request: Any) -> Any:
        """Row by row: the plan's memory is that of one picture."""
        try:
            rows = [
                call_and_wait(self._plan, {self.source: row[None]}, self.outputs, request.request_id())
                for row in array(request, self.source)
            ]
        except Exception as error:
            return error_response(error, request.request_id())
        columns = zip(*rows, strict=True)
        return self._answer(request, dict(zip(self.outputs, map(np.concatenate, columns), strict=True)))

    def _answer(self, request: Any, computed: Outputs) -> Any:
        try:
            return response(**self.finished(request, computed))
        except Exception as error:  # of this request's other inputs: its batch-mates have their answers
            return error_response(error, request.request_id())

    def finished(self, request: Any, computed: Outputs) -> Outputs:
        """What is answered; a half may have more to do with its request's other inputs."""
        return computed


def _give_memory_back() -> None:
    """A large picture takes several times what the next one may need; taking it again costs some milliseconds."""
    if torch.cuda.memory_reserved() > KEPT_BYTES:
        torch.cuda.empty_cache()
