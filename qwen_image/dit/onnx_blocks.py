"""The blocks' exported graph run by ONNX Runtime on the CPU, in float32.

It checks what TensorRT compiles, on any machine: the same file, profiles, manifest and weights, through the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from qwen_image.dit.compiled_blocks import CompiledBlocks
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Weights
from qwen_image.engines.manifest import Manifest
from qwen_image.errors import EngineError

ELEMENT_TYPES = {torch.float32: 1, torch.bool: 9, torch.bfloat16: 16, torch.float8_e4m3fn: 17}  # onnx.TensorProto's


class OnnxBlocks(CompiledBlocks):
    """Tensors are read where PyTorch holds them, without a copy."""

    def __init__(self, manifest: Manifest, engine: Path, weights: Weights, device: torch.device) -> None:
        import onnxruntime

        super().__init__(manifest, device)
        if self.precision is not Precision.FP32 or device.type != "cpu":
            raise EngineError(
                f"ONNX Runtime runs the blocks in fp32 on a CPU; {engine} computes in {self.precision}, and the device "
                f"is {device}"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other models share the cores
        self._session = onnxruntime.InferenceSession(engine, options, providers=["CPUExecutionProvider"])
        self._read_weights(weights)

    def _run(
        self, profile: int, inputs: dict[str, torch.Tensor], blocks: list[dict[str, torch.Tensor]]
    ) -> torch.Tensor:
        for weights in blocks:
            outputs = run_block(self._session, inputs, weights)
            inputs = inputs | outputs
        return inputs["image"]


def run_block(
    session: Any, inputs: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """One block of the exported graph: `image` and `text` after it. Tensors are on the CPU."""
    given = {name: tensor.contiguous() for name, tensor in {**inputs, **weights}.items()}
    outputs = {name: torch.empty_like(given[name]) for name in ("image", "text")}
    binding = session.io_binding()
    for name, tensor in given.items():
        binding.bind_input(*_place(name, tensor))
    for name, tensor in outputs.items():
        binding.bind_output(*_place(f"{name}_out", tensor))
    session.run_with_iobinding(binding)
    return outputs


def _place(name: str, tensor: torch.Tensor) -> tuple[str, str, int, int, tuple[int, ...], int]:
    """A tensor where it lies: name, device and its number, type, shape, address."""
    return name, "cpu", 0, ELEMENT_TYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr()
