"""The blocks on TensorRT or TensorRT-RTX: one engine, one context a profile, every address fixed.

Fixed addresses let a whole step be captured as a CUDA graph. One context runs at a time: they share activation memory.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from qwen_image.dit.compiled_blocks import CompiledBlocks
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Weights
from qwen_image.engines.library import load_library
from qwen_image.engines.manifest import Manifest
from qwen_image.errors import EngineError

STREAMS = ("image", "text")


class TensorRtBlocks(CompiledBlocks):
    """Runs on PyTorch's current CUDA stream."""

    def __init__(self, manifest: Manifest, engine: Path, weights: Weights, device: torch.device) -> None:
        super().__init__(manifest, weights, precision=Precision(manifest.precision), device=device)
        library = load_library(manifest.library)
        self._runtime = library.Runtime(library.Logger(library.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(engine.read_bytes())
        if self._engine is None:
            raise EngineError(f"{manifest.library} can't load {engine}: its reason is on standard error")
        self._memory = self._activation_memory()
        self._contexts = [self._context(library, profile) for profile in range(len(self.profiles))]
        self._buffers: dict[str, torch.Tensor] = {}

    def _activation_memory(self) -> torch.Tensor:
        sizes = [self._engine.get_device_memory_size_for_profile_v2(each) for each in range(len(self.profiles))]
        return torch.empty(max(sizes), dtype=torch.uint8, device=self.device)

    def _context(self, library: Any, profile: int) -> Any:
        context = self._engine.create_execution_context(library.ExecutionContextAllocationStrategy.USER_MANAGED)
        stream = torch.cuda.current_stream(self.device)
        context.set_device_memory(self._memory.data_ptr(), self._memory.numel())
        context.set_optimization_profile_async(profile, stream.cuda_stream)
        stream.synchronize()
        return context

    def _run(
        self, profile: int, inputs: dict[str, torch.Tensor], blocks: list[dict[str, torch.Tensor]]
    ) -> torch.Tensor:
        context = self._contexts[profile]
        placed = {name: self._placed(name, tensor) for name, tensor in inputs.items()}
        others = {name: self._buffer(f"{name}_out", placed[name]) for name in STREAMS}
        for name, tensor in placed.items():
            context.set_input_shape(name, tuple(tensor.shape))
            context.set_tensor_address(name, tensor.data_ptr())
        for weights in blocks:  # what one block writes the next one reads: two buffers a stream take turns
            for name, tensor in weights.items():
                context.set_tensor_address(name, tensor.data_ptr())
            for name in STREAMS:
                context.set_tensor_address(name, placed[name].data_ptr())
                context.set_tensor_address(f"{name}_out", others[name].data_ptr())
            if not context.execute_async_v3(torch.cuda.current_stream(self.device).cuda_stream):
                raise EngineError("TensorRT could not run a block: its reason is on standard error")
            for name in STREAMS:
                placed[name], others[name] = others[name], placed[name]
        return placed["image"].clone()

    def _placed(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return self._buffer(name, tensor).copy_(tensor)

    def _buffer(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Memory of that name at a fixed address, large enough for every profile, seen in the shape of `like`."""
        if name not in self._buffers:
            self._buffers[name] = torch.empty(self._most_values(name), dtype=like.dtype, device=self.device)
        return self._buffers[name][: like.numel()].view(like.shape)

    def _most_values(self, name: str) -> int:
        source = name.removesuffix("_out")
        largest = [self._engine.get_tensor_profile_shape(source, each)[2] for each in range(len(self.profiles))]
        return max(int(math.prod(shape)) for shape in largest)
