"""The TensorRT runtime on a GPU: each library that is installed, against PyTorch. Skipped where there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from diffusers import QwenImageTransformer2DModel

from build.engines import build_engines
from build.export import export
from build.target import Target
from qwen_image.checkpoint import Checkpoint, open_checkpoint
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


def batch(rows: int, grid: tuple[int, int], text_tokens: int, *, padded: bool) -> Batch:
    """Random; `padded`: the last row's text is half as long."""
    generator = torch.Generator().manual_seed(rows)
    mask = torch.ones(rows, text_tokens, dtype=torch.bool)
    mask[-1, text_tokens // 2 :] = not padded
    return Batch(
        torch.randn(rows, grid[0] * grid[1], 64, generator=generator).cuda(),
        torch.linspace(1, 0.1, rows).cuda(),
        (torch.randn(rows, text_tokens, 64, generator=generator) * mask[..., None]).cuda(),
        mask.cuda() if padded else None,
        grid,
    )


@pytest.fixture(params=[32, 128], ids=lambda head_dim: f"head_dim {head_dim}")
def checkpoint(request, tiny_checkpoint, tmp_path) -> Checkpoint:
    """The tiny one, and one whose heads are as wide as those of the 20 B model."""
    if request.param == 32:
        return open_checkpoint(tiny_checkpoint)
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "wide"))
    config = {**json.loads((folder / "transformer" / "config.json").read_text()), "attention_head_dim": request.param}
    config["axes_dims_rope"] = [16, 56, 56]
    torch.manual_seed(0)
    shutil.rmtree(folder / "transformer")
    QwenImageTransformer2DModel.from_config(config).save_pretrained(folder / "transformer")
    return open_checkpoint(folder)


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP8])
def test_it_computes_what_pytorch_computes_and_can_be_a_cuda_graph(checkpoint, tmp_path, library, precision):
    export(checkpoint, tmp_path / "onnx", precision, ["block"])
    target = Target(library, precision, named(["512", "1024"]))
    (manifest,) = build_engines(checkpoint, tmp_path / "onnx", tmp_path / "engines", target, ["block"])
    settings = {"precision": precision, "device": "cuda"}
    compiled = load_transformer(checkpoint, engine=library, manifest=manifest, **settings)
    eager = load_transformer(checkpoint, **settings)
    small = batch(2, (4, 4), 9, padded=True)
    for given in (small, batch(3, (8, 8), 30, padded=False), batch(2, (64, 64), 50, padded=True), small):
        expected, found = eager.velocity(given), compiled.velocity(given)
        assert ((expected - found).norm() / expected.norm()).item() < 0.05
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compiled.velocity(given)
    captured.zero_()
    graph.replay()
    assert torch.equal(captured, found)
