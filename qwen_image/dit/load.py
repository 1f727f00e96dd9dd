"""A transformer on the engine that the repository names."""

from __future__ import annotations

from pathlib import Path

import torch

from qwen_image.checkpoint import Checkpoint
from qwen_image.dit.blocks import Blocks, TorchBlocks
from qwen_image.dit.onnx_blocks import OnnxBlocks
from qwen_image.dit.precision import Precision
from qwen_image.dit.tensorrt_blocks import TensorRtBlocks
from qwen_image.dit.transformer import Transformer
from qwen_image.dit.weights import CheckpointWeights, Weights
from qwen_image.engines.fingerprint import config_fingerprint
from qwen_image.engines.library import LIBRARIES, device_capability, library_version
from qwen_image.engines.manifest import checked_engine
from qwen_image.errors import EngineError

ENGINES = ("torch", "onnxruntime", *LIBRARIES)


def load_transformer(
    checkpoint: Checkpoint,
    *,
    engine: str = "torch",
    manifest: Path | None = None,
    precision: Precision = Precision.FP32,
    device: str = "cpu",
    max_batch_tokens: int = 65_536,
) -> Transformer:
    """Weights and, unless `engine` is torch, the compiled blocks that `manifest` describes.

    EngineError: an unknown engine, or one that was built for something else. `max_batch_tokens` bounds the image tokens
    of a call on torch, guidance branches counted; on the others the profiles do.
    """
    weights = CheckpointWeights(checkpoint)
    if engine == "torch":
        return Transformer(
            weights, TorchBlocks(weights, precision=precision, device=device, max_batch_tokens=max_batch_tokens)
        )
    if engine not in ENGINES or manifest is None:
        raise EngineError(f"engine={engine!r} must be one of {', '.join(ENGINES)}, and all but torch need a manifest")
    return Transformer(weights, _compiled(checkpoint, weights, engine, manifest, precision, device))


def _compiled(
    checkpoint: Checkpoint, weights: Weights, engine: str, path: Path, precision: Precision, device: str
) -> Blocks:
    capability = device_capability()
    if engine in LIBRARIES and capability is None:
        raise EngineError(f"engine={engine} runs on a GPU, and PyTorch finds none here; engine=torch runs anywhere")
    manifest, file = checked_engine(
        path,
        library=engine,
        library_version=library_version(engine),
        precision=precision,
        config_fingerprint=config_fingerprint(checkpoint.folder / "transformer"),
        compute_capability=capability if engine in LIBRARIES else None,
    )
    if engine == "onnxruntime":
        return OnnxBlocks(manifest, file, weights)
    return TensorRtBlocks(manifest, file, weights, torch.device(device))
