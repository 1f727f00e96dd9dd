"""A stand-in for TensorRT on a machine without a GPU that it runs on: the calls of its Python API that the runtime
makes, computed by PyTorch from what lies at the addresses it was given.

It shows that shapes, addresses, profiles and turns of buffers are right. That the library takes such an engine, and
what it computes, only a GPU shows (`tests/gpu`).
"""

from __future__ import annotations

import ctypes
import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from qwen_image.dit.blocks import empty_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Dimensions
from qwen_image.engines.profiles import BlockProfile

OUTPUTS = {"image_out": "image", "text_out": "text"}


@dataclass
class Engine:
    """Of a block in float32."""

    dimensions: Dimensions
    profiles: tuple[BlockProfile, ...]
    refused: set[str] = field(default_factory=set)  # inputs whose shape is not taken
    other_dtypes: dict[str, str] = field(default_factory=dict)
    contexts: list[Context] = field(default_factory=list)

    def __post_init__(self) -> None:
        parameters = empty_block(self.dimensions, Precision.FP32).named_parameters()
        self.weights = {name: tuple(each.shape) for name, each in parameters}
        self.names = [*self.shapes(0), *self.weights, *OUTPUTS]
        self.num_io_tensors, self.num_optimization_profiles = len(self.names), len(self.profiles)

    def shapes(self, profile: int) -> dict[str, Any]:
        return self.profiles[profile].shapes(self.dimensions.dim, self.dimensions.head_dim)

    def get_tensor_name(self, position: int) -> str:
        return self.names[position]

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name=self.other_dtypes.get(name, "BOOL" if name == "text_mask" else "FLOAT"))

    def get_device_memory_size_for_profile_v2(self, profile: int) -> int:
        return 1000 + profile

    def create_runtime_config(self) -> Any:
        return SimpleNamespace(set_execution_context_allocation_strategy=lambda strategy: None)

    def create_execution_context(self, config: Any) -> Context:
        self.contexts.append(Context(self, config))
        return self.contexts[-1]


@dataclass
class Context:
    engine: Engine
    config: Any
    profile: int | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

    def set_device_memory(self, address: int, size: int) -> None:
        assert size >= max(map(self.engine.get_device_memory_size_for_profile_v2, range(len(self.engine.profiles))))

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self.profile = profile
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self.engine.shapes(self.profile)[name]
        fits = all(low <= size <= high for low, size, high in zip(least, shape, most, strict=True))
        if not fits or name in self.engine.refused:
            return False
        self.shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return name in self.engine.names

    def execute_async_v3(self, stream: int) -> bool:
        block = empty_block(self.engine.dimensions, Precision.FP32)
        weights = {name: self._tensor(name, shape) for name, shape in self.engine.weights.items()}
        block.load_state_dict(weights, assign=True)
        with torch.inference_mode():
            image, text = block(**{name: self._tensor(name, shape) for name, shape in self.shapes.items()})
        for name, result in (("image_out", image), ("text_out", text)):
            self._tensor(name, self.shapes[OUTPUTS[name]]).copy_(result)
        return True

    def _tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """What lies at the address of a tensor."""
        dtype = torch.bool if name == "text_mask" else torch.float32
        memory = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(self.addresses[name])
        return torch.frombuffer(memory, dtype=dtype).view(shape)


class Stream:
    """A CUDA stream's calls where there is none: nothing is asynchronous. Notes who waits for whom."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.cuda_stream = id(self)
        self.waited_for: list[Stream] = []

    def wait_stream(self, other: Stream) -> None:
        self.waited_for.append(other)

    def synchronize(self) -> None:
        pass


def install(monkeypatch: Any, engine: Engine) -> Stream:
    """Put the library and CUDA's streams in place for `TensorRtBlocks`; PyTorch's current stream is returned."""

    class Logger:
        WARNING = 1

        def __init__(self, level: int) -> None:
            pass

    library = SimpleNamespace(
        Logger=Logger,
        Runtime=lambda logger: SimpleNamespace(deserialize_cuda_engine=lambda plan: engine if plan else None),
        ExecutionContextAllocationStrategy=SimpleNamespace(USER_MANAGED=2),
        DynamicShapesKernelSpecializationStrategy=SimpleNamespace(EAGER=1),
    )
    current = Stream()
    monkeypatch.setattr("qwen_image.dit.tensorrt_blocks.load_library", lambda name: library)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: current)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    return current
