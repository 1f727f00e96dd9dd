"""The VAE as two ONNX files, vae_decoder.onnx and vae_encoder.onnx, for any number of pictures of any size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import torch

from build.onnx_export import export_module
from qwen_image.checkpoint import Checkpoint
from qwen_image.engines.manifest import VAE_COMPONENTS
from qwen_image.families import Family
from qwen_image.vae.vae import PictureDecoder, PictureEncoder, Vae, load_vae

# Before Attention was an operator: for it TensorRT wants a kernel of its own, and has none for a head of 384 channels.
OPSET = 22
Shapes: TypeAlias = dict[str, tuple[int, ...]]  # of a file's inputs, by name


def vae_inputs(family: Family, rows: int, height: int, width: int) -> dict[str, Shapes]:
    """The shape of every input of each file, by the file's stem, for `rows` pictures of a size in pixels.

    Height and width are multiples of 16, as everywhere.
    """
    factor = family.vae_scale_factor
    return {
        "vae_decoder": {"latents": (rows, family.latent_channels, 1, height // factor, width // factor)},
        "vae_encoder": {"image": (rows, height, width, 3)},
    }


def export_vae(
    checkpoint: Checkpoint, folder: Path, dtype: torch.dtype, components: Sequence[str] = VAE_COMPONENTS
) -> list[Path]:
    """Write the files of `components` into `folder`, their weights beside them in `dtype`, and return their paths.

    vae_decoder: latents float32 (B, 16, 1, h, w), normalised -> image uint8 (B, 8h, 8w, 3).
    vae_encoder: image uint8 (B, H, W, 3) -> latents and deviation, float32 (B, 16, 1, H/8, W/8), normalised.
    """
    vae, writers = load_vae(checkpoint, dtype), {"vae_decoder": _export_decoder, "vae_encoder": _export_encoder}
    shapes = vae_inputs(checkpoint.family, 2, 64, 96)
    return [writers[each](vae, shapes[each], folder / f"{each}.onnx") for each in components]


def _export_decoder(vae: Vae, shapes: Shapes, path: Path) -> Path:
    return export_module(
        PictureDecoder(vae),
        {"latents": torch.zeros(shapes["latents"])},
        {"latents": {0: "rows", 3: "latent_height", 4: "latent_width"}},
        ["image"],
        path,
        opset=OPSET,
    )


def _export_encoder(vae: Vae, shapes: Shapes, path: Path) -> Path:
    return export_module(
        PictureEncoder(vae),
        {"image": torch.zeros(shapes["image"], dtype=torch.uint8)},
        {"image": {0: "rows", 1: "height", 2: "width"}},
        ["latents", "deviation"],
        path,
        opset=OPSET,
    )
