"""CUDA graphs: a whole step as one launch, one graph for each set of shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch

Inputs = Mapping[str, torch.Tensor]
MAX_GRAPHS = 128


class Graph:
    """One recorded computation and the tensors that it reads and writes."""

    def __init__(self, compute: Callable[[Inputs], torch.Tensor], inputs: Inputs, pool: Any) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        compute(self._inputs)  # libraries choose and compile their kernels outside of the recording
        self._graph = torch.cuda.CUDAGraph()
        # Only this thread's calls are forbidden meanwhile: others of this process may be at work.
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._output = compute(self._inputs)

    def replay(self, inputs: Inputs) -> torch.Tensor:
        for name, tensor in inputs.items():
            self._inputs[name].copy_(tensor)
        self._graph.replay()
        return self._output.clone()  # other graphs use the same memory


class Graphs:
    """Those used last. Their results are held by nobody and they never run at once, so they share memory."""

    def __init__(self) -> None:
        self.misses = 0  # shapes that had to be recorded
        self._held: OrderedDict[Hashable, Graph] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, compute: Callable[[Inputs], torch.Tensor], inputs: Inputs, constants: Hashable) -> torch.Tensor:
        """compute(inputs), which must depend on the inputs' values, their shapes and `constants` alone."""
        key = (constants, *((name, tensor.shape) for name, tensor in inputs.items()))
        graph = self._held.pop(key, None)
        if graph is None:
            self.misses += 1
            graph = Graph(compute, inputs, self._pool)
        self._held[key] = graph
        if len(self._held) > MAX_GRAPHS:
            self._held.popitem(last=False)
        return graph.replay(inputs)
