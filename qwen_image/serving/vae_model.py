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
from qwen_image.errors import InvalidRequest, NotFinite
from qwen_image.request.grants import ONLY_FROM_INSIDE, Cost
from qwen_image.serving.backend import ModelSettings, error_response, give_way, log_warm
from qwen_image.serving.bls import call_plan
from qwen_image.serving.gpu_health import end_if_gpu_is_lost
from qwen_image.serving.gpu_memory import gpu_memory
from qwen_image.serving.granted import checked_costs, grants_of_this_server
from qwen_image.serving.host_memory import HostMemory
from qwen_image.serving.metrics import Metrics
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
        self._grants = grants_of_this_server()
        if not self._plan:
            torch.set_num_threads(settings.integer("threads"))
            self.load(settings.checkpoint(), settings.load_format, settings.device, getattr(torch, settings["dtype"]))
        self._metrics = Metrics(settings.name, "qwen_image_not_finite_images_total")
        self._host_memory = HostMemory()
        log_warm(settings.name, time.perf_counter() - start, gpu_memory())
        be_watched(settings.name)

    def finalize(self) -> None:
        self._metrics.close()

    @abstractmethod
    def load(self, checkpoint: Checkpoint, load_format: LoadFormat, device: str, dtype: torch.dtype) -> None:
        """Load the half in PyTorch and compute once."""

    @abstractmethod
    def compute(self, rows: NDArray[Any]) -> Outputs:
        """All outputs for rows of the input."""

    def check_cost(self, row: NDArray[Any], cost: Cost | None) -> None:
        """InvalidRequest unless the row of the input is as large as its grant says; None allows any size."""
        if cost is not None:
            raise InvalidRequest(ONLY_FROM_INSIDE)

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        """One request at a time: rows are computed one by one anyway, and a bad one harms no other."""
        rows = array(request, self.source)
        try:
            costs = checked_costs(request, self._grants)
            for row, cost in zip(rows, costs, strict=True):
                self.check_cost(row, cost)
            computed = self._compute_by_plan(rows, request.request_id()) if self._plan else self.compute(rows)
            return response(**self.finished(request, computed))
        except Exception as error:
            end_if_gpu_is_lost([error])
            if isinstance(error, NotFinite):
                self._metrics.add("qwen_image_not_finite_images_total", len(rows))
            return error_response(error, request.request_id())
        finally:
            _give_gpu_memory_back()
            self._host_memory.give_back()

    def _compute_by_plan(self, rows: NDArray[Any], request_id: str) -> Outputs:
        """Row by row: the plan's memory is that of one picture."""
        parts = [call_plan(self._plan, {self.source: row[None]}, self.outputs, request_id) for row in rows]
        return dict(zip(self.outputs, map(np.concatenate, zip(*parts, strict=True)), strict=True))

    def finished(self, request: Any, computed: Outputs) -> Outputs:
        """What is answered; a half may have more to do with its request's other inputs."""
        return computed


def _give_gpu_memory_back() -> None:
    """A large picture takes several times what the next one may need; taking it again costs some milliseconds."""
    if torch.cuda.memory_reserved() > KEPT_BYTES:
        torch.cuda.empty_cache()
