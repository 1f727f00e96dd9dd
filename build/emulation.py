"""A bfloat16 graph made computable on a CPU: ONNX Runtime has few bfloat16 kernels there, and casts are among them."""

from __future__ import annotations

import onnx_ir

NARROW, WIDE = onnx_ir.DataType.BFLOAT16, onnx_ir.DataType.FLOAT


def widened(model: onnx_ir.Model) -> onnx_ir.Model:
    """The same graph, every bfloat16 operator computed in float32 between casts. Changes the model, and returns it.

    Each result is rounded to bfloat16 as before, so the numbers are those of a device that computes an operator in
    float32 and stores bfloat16, as TensorRT's and PyTorch's kernels do. Inputs and outputs keep their types.
    """
    for node in list(model.graph):
        if node.op_type == "Cast":
            continue
        for position, value in enumerate(node.inputs):
            if value is not None and value.dtype == NARROW:
                cast = _cast(value, WIDE)
                model.graph.insert_before(node, cast)
                node.replace_input_with(position, cast.outputs[0])
        if "output_dtype" in node.attributes and node.attributes["output_dtype"].as_int() == NARROW:
            node.attributes["output_dtype"] = onnx_ir.AttrInt64("output_dtype", int(WIDE))
        for value in node.outputs:
            if value.dtype == NARROW:
                _narrow_after(model.graph, node, value)
    return model


def _narrow_after(graph: onnx_ir.Graph, node: onnx_ir.Node, value: onnx_ir.Value) -> None:
    """The node's result in float32, and a cast that gives what the others read under the old name."""
    cast = _cast(value, NARROW)
    narrow, name = cast.outputs[0], value.name
    onnx_ir.convenience.replace_all_uses_with(value, narrow, replace_graph_outputs=True)
    cast.replace_input_with(0, value)
    value.dtype, value.name, narrow.name = WIDE, f"{name}_wide", name
    graph.insert_after(node, cast)


def _cast(value: onnx_ir.Value, dtype: onnx_ir.DataType) -> onnx_ir.Node:
    cast = onnx_ir.node("Cast", [value], {"to": dtype})
    cast.outputs[0].dtype, cast.outputs[0].shape = dtype, value.shape
    return cast
