"""A transformer on the engine that the repository names."""

from __future__ import annotations

from pathlib import Path

import torch

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.dit.blocks import TorchBlocks
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.engine import Engine
from qwen_image.dit.onnx_blocks import OnnxBlocks
from qwen_image.dit.precision import Precision
from qwen_image.dit.tensorrt_blocks import TensorRtBlocks
from qwen_image.dit.transformer import Transformer
from qwen_image.dit.weights import CheckpointWeights, Weights
from qwen_image.engines.fingerprint import config_fingerprint
from qwen_image.engines.library import ENGINES, LIBRARIES, device_capability, library_version
from qwen_image.engines.manifest import (
    Manifest,
    check_fits_checkpoint,
    check_fits_machine,
    read_manifest,
    whole_engine,
)
from qwen_image.engines.profiles import check_covered
from qwen_image.errors import EngineError


def load_transformer(
    checkpoint: Checkpoint,
    *,
    load_format: LoadFormat = LoadFormat.AUTO,
    engine: str = "torch",
    manifest: Path | None = None,
    precision: Precision = Precision.FP32,
    device: str = "cpu",
    max_batch_tokens: int = 65_536,
    image_tokens: tuple[int, int] | None = None,
    max_text_tokens: int = 1,
) -> Engine:
    """Weights and, unless `engine` is torch, the compiled blocks that `manifest` describes.

    EngineError, before any weight is read: an unknown engine, one that was built for something else, or one that does
    not hold calls of `image_tokens` (the fewest, the most) and up to `max_text_tokens`. `max_batch_tokens` bounds the
    image tokens of a call on torch, guidance branches counted; on the others the profiles do.
    """
    is_dummy = load_format is LoadFormat.DUMMY
    weights: Weights = DummyWeights(checkpoint.config("transformer")) if is_dummy else CheckpointWeights(checkpoint)
    if engine == "torch" and torch.device(device).type == "cuda" and precision is not Precision.FP32:
        from qwen_image.dit.fused.transformer import FusedTransformer  # Triton's compiler, which only GPUs need

        return FusedTransformer(weights, precision=precision, device=device, max_batch_tokens=max_batch_tokens)
    if engine == "torch":
        return Transformer(
            weights, TorchBlocks(weights, precision=precision, device=device, max_batch_tokens=max_batch_tokens)
        )
    if engine not in ENGINES or manifest is None:
        raise EngineError(f"engine={engine!r} must be one of {', '.join(ENGINES)}, and all but torch need a manifest")
    described, file = _checked(checkpoint, engine, manifest, precision, device)
    if image_tokens is not None:
        check_covered(described.block_profiles, image_tokens=image_tokens, max_text_tokens=max_text_tokens)
    blocks = OnnxBlocks if engine == "onnxruntime" else TensorRtBlocks
    return Transformer(weights, blocks(described, file, weights, torch.device(device)))


def _checked(
    checkpoint: Checkpoint, engine: str, path: Path, precision: Precision, device: str
) -> tuple[Manifest, Path]:
    """The manifest at `path` and its engine, which fit checkpoint and machine."""
    capability = device_capability() if engine in LIBRARIES else None
    if engine in LIBRARIES and (capability is None or torch.device(device).type != "cuda"):
        raise EngineError(
            f"engine={engine} runs on a GPU, and {f'device is {device}' if capability else 'PyTorch finds none here'}; "
            "engine=torch runs anywhere"
        )
    manifest = read_manifest(path)
    check_fits_checkpoint(
        path,
        manifest,
        component="block",
        library=engine,
        precision=precision,
        config_fingerprint=config_fingerprint(checkpoint.folder / "transformer"),
    )
    check_fits_machine(path, manifest, library_version=library_version(engine), compute_capability=capability)
    return manifest, whole_engine(path, manifest)
