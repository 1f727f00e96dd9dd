"""One transformer block to ONNX. Its weights are inputs of the graph, so that one file describes every block."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir
import torch
from torch.export import Dim

from build.onnx_export import export_module
from qwen_image.dit.blocks import empty_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import Dimensions

OUTPUTS = ("image_out", "text_out")
FP8 = onnx_ir.DataType.FLOAT8E4M3FN
COMPUTED = onnx_ir.DataType.BFLOAT16


def export_block(dimensions: Dimensions, path: Path, precision: Precision) -> Path:
    """Write a block of these dimensions to `path`. No weight is read: the file has some 60 KB, 80 in FP8.

    Inputs are those of `qwen_image.dit.blocks.BlockInputs` and the block's parameters, under their names in the
    checkpoint; outputs are the two streams, `image_out` and `text_out`. Rows, image and text tokens are free.
    """
    rows, image_tokens, text_tokens = (
        Dim("rows", max=1024),
        Dim("image_tokens", max=2**20),
        Dim("text_tokens", max=2**20),
    )
    return export_module(
        empty_block(dimensions, precision),
        example_inputs(dimensions, precision),
        {  # of inputs that a configuration does not have, nothing is taken
            "image": {0: rows, 1: image_tokens},
            "text": {0: rows, 1: text_tokens},
            "text_mask": {0: rows, 1: text_tokens},
            "temb": {0: rows},
            "image_rotary": {1: image_tokens},
            "text_rotary": {1: text_tokens},
            "reference_temb": {0: rows},
            "is_reference": {0: image_tokens},
        },
        OUTPUTS,
        path,
        weights_as_inputs=True,
        rewrite=casts_to_quantisation if precision is Precision.FP8 else None,
    )


def example_inputs(dimensions: Dimensions, precision: Precision) -> dict[str, torch.Tensor]:
    """Tensors without values of the inputs' ranks and types."""
    rows, image_tokens, text_tokens = 2, 64, 16
    dim, half_head = dimensions.dim, dimensions.head_dim // 2
    with torch.device("meta"):
        inputs = {
            "image": torch.empty(rows, image_tokens, dim, dtype=precision.dtype),
            "text": torch.empty(rows, text_tokens, dim, dtype=precision.dtype),
            "text_mask": torch.empty(rows, text_tokens, dtype=torch.bool),
            "temb": torch.empty(rows, dim, dtype=precision.dtype),
            "image_rotary": torch.empty(2, image_tokens, half_head),
            "text_rotary": torch.empty(2, text_tokens, half_head),
        }
        if dimensions.zero_cond_t:
            inputs["reference_temb"] = torch.empty(rows, dim, dtype=precision.dtype)
            inputs["is_reference"] = torch.empty(image_tokens, dtype=torch.bool)
    return inputs


def casts_to_quantisation(model: onnx_ir.Model) -> None:
    """Casts to and from FP8 become QuantizeLinear and DequantizeLinear of scale one, which TensorRT looks for."""
    graph = model.graph
    one = _scalar_one(graph)
    for node in list(graph):
        if node.op_type != "Cast":
            continue
        source, target = node.inputs[0], node.outputs[0]
        assert source is not None
        if FP8 not in (source.dtype, target.dtype):
            continue
        is_quantising = target.dtype == FP8
        linear = onnx_ir.node(
            "QuantizeLinear" if is_quantising else "DequantizeLinear",
            [source, one],
            {"output_dtype": FP8 if is_quantising else COMPUTED},
        )
        result = linear.outputs[0]
        result.type, result.shape, result.name = target.type, target.shape, target.name
        graph.insert_before(node, linear)
        target.replace_all_uses_with(result)
        graph.remove(node, safe=True)


def _scalar_one(graph: onnx_ir.Graph) -> onnx_ir.Value:
    tensor = onnx_ir.tensor(np.array(1, ml_dtypes.bfloat16), name="one")
    value = onnx_ir.Value(name="one", const_value=tensor, shape=onnx_ir.Shape([]), type=onnx_ir.TensorType(COMPUTED))
    graph.register_initializer(value)
    return value
