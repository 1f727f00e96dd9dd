"""CUDA graphs: a whole step as one launch, one graph for each set of shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import torch

Inputs = Mapping[str, torch.Tensor]
Compute = Callable[[Inputs], torch.Tensor]
MAX_GRAPHS = 128
MAX_BYTES = 4 << 30  # of their inputs: with many rows and long texts one graph has up to 200 MB


class Graph:
    """One recorded computation and the tensors that it reads and writes."""

    def __init__(self, compute: Compute, inputs: Inputs, pool: Any) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        compute(self._inputs)  # libraries choose and compile their kernels outside of the recording
        self._graph = torch.cuda.CUDAGraph()
        # Only this thread's calls are forbidden meanwhile: others of this process may be at work.
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._output = compute(self._inputs)

    @property
    def num_bytes(self) -> int:
        """What it alone holds: its inputs. All else it has in common with the others."""
        return sum(tensor.nbytes for tensor in self._inputs.values())

    def replay(self, inputs: Inputs) -> torch.Tensor:
        for name, tensor in inputs.items():
            self._inputs[name].copy_(tensor)
        self._graph.replay()
        return self._output.clone()  # other graphs use the same memory


class Graphs:
    """Those used last. Their results are held by nobody and they never run at once, so they share memory.

    `record` makes a graph of a computation and its first inputs.
    """

    def __init__(self, record: Callable[[Compute, Inputs], Graph] | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.misses = 0  # shapes that had to be recorded
        self._held: OrderedDict[Hashable, Graph] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._record = record or partial(Graph, pool=torch.cuda.graph_pool_handle())

    def run(self, compute: Compute, inputs: Inputs, constants: Hashable) -> torch.Tensor:
        """compute(inputs), which must depend on the inputs' values, their shapes and `constants` alone."""
        key = (constants, *((name, tensor.shape) for name, tensor in inputs.items()))
        if key in self._held:
            self._held.move_to_end(key)
        else:
            self.misses += 1
            self._held[key] = graph = self._recorded(compute, inputs)
            self._bytes += graph.num_bytes
            while len(self._held) > 1 and (len(self._held) > MAX_GRAPHS or self._bytes > self._max_bytes):
                _, oldest = self._held.popitem(last=False)
                self._bytes -= oldest.num_bytes
        return self._held[key].replay(inputs)

    def _recorded(self, compute: Compute, inputs: Inputs) -> Graph:
        """If memory is short, the graphs that are there make room: they can be recorded again, a request can't."""
        try:
            return self._record(compute, inputs)
        except torch.OutOfMemoryError:
            if not self._held:
                raise
            self._held.clear()
            self._bytes = 0
            return self._record(compute, inputs)
