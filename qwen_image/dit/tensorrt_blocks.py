"""The blocks on TensorRT or TensorRT-RTX: one engine, one context a profile.

A block's inputs and outputs have fixed addresses, so that a step can be captured as a CUDA graph; nothing in serving
does so yet. One context runs at a time: they share activation memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from qwen_image.dit.compiled_blocks import CompiledBlocks, dtype_name
from qwen_image.dit.weights import Dimensions, Weights
from qwen_image.engines.library import load_library
from qwen_image.engines.manifest import REBUILD, Manifest
from qwen_image.errors import EngineError

STREAMS = ("image", "text")  # what one block writes the next one reads
DTYPES = {"FLOAT": torch.float32, "BF16": torch.bfloat16, "FP8": torch.float8_e4m3fn, "BOOL": torch.bool}
NOT_ACTIVATIONS = {"text_mask": torch.bool, "is_reference": torch.bool} | dict.fromkeys(
    ("image_rotary", "text_rotary"), torch.float32
)


class TensorRtBlocks(CompiledBlocks):
    """Runs on a CUDA stream of its own, which waits for PyTorch's current one and is waited for by it."""

    def __init__(self, manifest: Manifest, engine: Path, weights: Weights, device: torch.device) -> None:
        super().__init__(manifest, device)
        library = load_library(manifest.library)
        self._runtime = library.Runtime(library.Logger(library.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(engine.read_bytes())
        if self._engine is None:
            raise EngineError(f"{manifest.library} can't load {engine}: its reason is on standard error")
        self._check_tensors(engine, weights.dimensions)
        self._stream = torch.cuda.Stream(device)
        self._buffers = self._fixed_buffers(weights.dimensions)
        self._memory = self._activation_memory()
        self._contexts = [self._context(library, profile) for profile in range(len(self.profiles))]
        self._read_weights(weights)

    def _check_tensors(self, path: Path, dimensions: Dimensions) -> None:
        """EngineError unless the engine's tensors are those that will be handed to it, and its profiles as many."""
        names = [self._engine.get_tensor_name(each) for each in range(self._engine.num_io_tensors)]
        found = {name: self._engine.get_tensor_dtype(name).name for name in names}
        data = {name: dtype_name(self._dtype(name)) for name in self._shapes(0, dimensions)}
        wanted = {name: dtype for name, (dtype, _) in self._manifest.weights.items()} | data
        known = {kind: dtype_name(dtype) for kind, dtype in DTYPES.items()}
        differing = [
            f"{name} is {found.get(name)}, wanted {wanted.get(name)}"
            for name in sorted(found.keys() | wanted.keys())
            if known.get(found.get(name, "")) != wanted.get(name)
        ]
        if differing or self._engine.num_optimization_profiles != len(self.profiles):
            raise EngineError(
                f"{path} has {self._engine.num_optimization_profiles} profiles, its manifest {len(self.profiles)}; "
                f"tensors that differ: {'; '.join(differing) or 'none'}: {REBUILD}"
            )

    def _shapes(self, profile: int, dimensions: Dimensions) -> dict[str, tuple[int, ...]]:
        """The largest shape that a profile holds of every tensor that is no weight, by name."""
        spans = self.profiles[profile].shapes(dimensions.dim, dimensions.head_dim, zero_cond_t=dimensions.zero_cond_t)
        most = {name: largest for name, (_, _, largest) in spans.items()}
        return {**most, **{f"{name}_out": most[name] for name in STREAMS}}

    def _dtype(self, name: str) -> torch.dtype:
        return NOT_ACTIVATIONS.get(name, self.precision.dtype)

    def _fixed_buffers(self, dimensions: Dimensions) -> dict[str, torch.Tensor]:
        """Flat memory for each of those tensors, large enough for every profile."""
        shapes = [self._shapes(each, dimensions) for each in range(len(self.profiles))]
        return {
            name: torch.empty(
                max(math.prod(each[name]) for each in shapes), dtype=self._dtype(name), device=self.device
            )
            for name in shapes[0]
        }

    def _activation_memory(self) -> torch.Tensor:
        sizes = [self._engine.get_device_memory_size_for_profile_v2(each) for each in range(len(self.profiles))]
        return torch.empty(max(sizes), dtype=torch.uint8, device=self.device)

    def _context(self, library: Any, profile: int) -> Any:
        config = self._engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(library.ExecutionContextAllocationStrategy.USER_MANAGED)
        # TensorRT-RTX compiles kernels for a new shape: before it is run, not meanwhile, so that equal calls are equal
        if (strategies := getattr(library, "DynamicShapesKernelSpecializationStrategy", None)) is not None:
            config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER
        context = self._engine.create_execution_context(config)
        if context is None:
            raise EngineError(f"{self._manifest.library} gave no context: its reason is on standard error")
        self._demand(context.set_device_memory(self._memory.data_ptr(), self._memory.numel()), "activation memory")
        done = context.set_optimization_profile_async(profile, self._stream.cuda_stream)
        self._demand(done, f"profile {self.profiles[profile].name}")
        self._stream.synchronize()
        return context

    def _run(
        self, profile: int, inputs: dict[str, torch.Tensor], blocks: list[dict[str, torch.Tensor]]
    ) -> torch.Tensor:
        current, context = torch.cuda.current_stream(self.device), self._contexts[profile]
        result = torch.empty_like(inputs["image"], memory_format=torch.contiguous_format)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):  # all that touches the buffers is on one stream
            placed = {name: self._view(name, tensor).copy_(tensor) for name, tensor in inputs.items()}
            outputs = {name: self._view(f"{name}_out", placed[name]) for name in STREAMS}
            for name, tensor in placed.items():
                shape = tuple(tensor.shape)
                self._demand(context.set_input_shape(name, shape), f"{name} of shape {shape}")
            for weights in blocks:  # two buffers a stream take turns
                self._run_block(context, weights | placed | {f"{name}_out": outputs[name] for name in STREAMS})
                placed, outputs = placed | outputs, {name: placed[name] for name in STREAMS}
            result.copy_(placed["image"])
        current.wait_stream(self._stream)
        return result

    def _run_block(self, context: Any, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            done = context.set_tensor_address(name, tensor.data_ptr())
            self._demand(done, f"the address of {name} of shape {tuple(tensor.shape)}")
        self._demand(context.execute_async_v3(self._stream.cuda_stream), "to run a block")

    def _view(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """The buffer of that name in the shape of `like`."""
        return self._buffers[name][: like.numel()].view(like.shape)

    def _demand(self, done: bool | None, what: str) -> None:
        """EngineError if the library said no; None is the answer of calls that have none."""
        if done is False:
            raise EngineError(f"{self._manifest.library} refused {what}: its reason is on standard error")
