"""PyTorch modules to ONNX files: the one place that knows torch's exporter."""

from __future__ import annotations

import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import onnx_ir
import onnxscript.optimizer
import torch
from onnx_ir.passes.common import CommonSubexpressionEliminationPass
from torch import nn

OPSET = 23  # the first with Attention and RMSNormalization


def export_module(
    module: nn.Module,
    examples: Mapping[str, torch.Tensor],
    dynamic_shapes: Mapping[str, Mapping[int, Any]],
    outputs: Sequence[str],
    path: Path,
    *,
    opset: int = OPSET,
    weights_as_inputs: bool = False,
    rewrite: Callable[[onnx_ir.Model], None] | None = None,
) -> Path:
    """Write `module` called with `examples` (its arguments in order) to `path`; each file appears when whole.

    Weights lie beside it in `path`.data, written once; or, `weights_as_inputs`, they are inputs of the graph under
    their parameters' names and nothing of them is written: the module may then live on the meta device. `rewrite`
    changes the finished graph.
    """
    program = _program(module, examples, dynamic_shapes, outputs, opset)
    graph = program.model.graph
    if weights_as_inputs:
        for name, _ in module.named_parameters():
            weight = graph.initializers.pop(name)
            weight.const_value = None
            graph.inputs.append(weight)
    onnxscript.optimizer.optimize(program.model)
    CommonSubexpressionEliminationPass()(program.model)
    if rewrite is not None:
        rewrite(program.model)
    return _write(program.model, path, external_data=not weights_as_inputs)


def _program(
    module: nn.Module,
    examples: Mapping[str, torch.Tensor],
    dynamic_shapes: Mapping[str, Mapping[int, Any]],
    outputs: Sequence[str],
    opset: int,
) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), torch.inference_mode():
        warnings.simplefilter("ignore")  # names of axes that are equal, deprecations inside the exporter
        return torch.onnx.export(
            module.eval(),
            tuple(examples.values()),
            dynamo=True,
            opset_version=opset,
            input_names=list(examples),
            output_names=list(outputs),
            dynamic_shapes=tuple(dict(dynamic_shapes[name]) for name in examples),
            optimize=False,
            verbose=False,
        )


def data_path(path: Path) -> Path:
    """Where the weights of an ONNX file lie, if they are not inputs."""
    return path.with_name(f"{path.name}.data")


def _write(model: onnx_ir.Model, path: Path, *, external_data: bool) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    for node in model.graph.all_nodes():
        node.metadata_props.clear()  # where in which file of this machine each operator came from
    data = data_path(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent) as folder:
        staging = Path(folder)
        onnx_ir.save(model, staging / path.name, external_data=data.name if external_data else None)
        if external_data:
            (staging / data.name).rename(data)
        (staging / path.name).rename(path)  # appears last, so that its being there means that all is
    return path
