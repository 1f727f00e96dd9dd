"""The TensorRT runtime on a GPU: each library that is installed, against PyTorch. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from build.engines import Target, build_engines
from build.export import export
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.engine import Batch
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision
from qwen_image.engines.library import LIBRARIES, load_library
from qwen_image.engines.profiles import named
from qwen_image.errors import EngineError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]


@pytest.fixture(params=LIBRARIES)
def library(request) -> str:
    try:
        load_library(request.param)
    except EngineError as error:
        pytest.skip(str(error))
    return request.param


def batch(rows: int, grid: tuple[int, int], text_tokens: int) -> Batch:
    generator = torch.Generator().manual_seed(rows)
    return Batch(
        torch.randn(rows, grid[0] * grid[1], 64, generator=generator).cuda(),
        torch.linspace(1, 0.1, rows).cuda(),
        torch.randn(rows, text_tokens, 64, generator=generator).cuda(),
        None,
        grid,
    )


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP8])
def test_it_computes_what_pytorch_computes_and_can_be_a_cuda_graph(tiny_checkpoint, tmp_path, library, precision):
    checkpoint = open_checkpoint(tiny_checkpoint)
    export(checkpoint, tmp_path / "onnx", precision, ["block"])
    target = Target(library, precision, named(["512", "1024"]))
    (manifest,) = build_engines(checkpoint, tmp_path / "onnx", tmp_path / "engines", target, ["block"])
    settings = {"precision": precision, "device": "cuda"}
    compiled = load_transformer(checkpoint, engine=library, manifest=manifest, **settings)
    eager = load_transformer(checkpoint, **settings)
    for given in (batch(2, (4, 4), 9), batch(3, (8, 8), 30), batch(2, (64, 64), 5)):
        expected, found = eager.velocity(given), compiled.velocity(given)
        assert ((expected - found).norm() / expected.norm()).item() < 0.05
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compiled.velocity(given)
    graph.replay()
    assert torch.equal(captured, found)
