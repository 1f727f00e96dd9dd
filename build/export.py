"""A checkpoint to ONNX files; what is already there and still right is skipped.

python build/export.py --checkpoint FOLDER --output onnx --precision bf16
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from build.export_block import export_block
from build.export_vae import export_vae
from qwen_image.checkpoint import Checkpoint, open_checkpoint, resolve_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.errors import QwenImageError

ROOT = Path(__file__).resolve().parents[1]
VAE_COMPONENTS = ("vae_decoder", "vae_encoder")
COMPONENTS = ("block", *VAE_COMPONENTS)
EXPORTED_CODE = (
    *("qwen_image/dit/block.py", "qwen_image/dit/fp8.py", "qwen_image/vae.py"),
    *("build/onnx_export.py", "build/export_block.py", "build/export_vae.py"),
)


def export(
    checkpoint: Checkpoint, output: Path, precision: Precision, components: Sequence[str] = COMPONENTS
) -> list[Path]:
    """Write the components' ONNX files under `output` and return them. A note beside each says what it was made from.

    The VAE's two files are written together.
    """
    stale = [each for each in components if not _is_done(checkpoint, onnx_path(output, each, precision))]
    if "block" in stale:
        export_block(CheckpointWeights(checkpoint).dimensions, onnx_path(output, "block", precision), precision)
    if set(stale) & set(VAE_COMPONENTS):
        export_vae(checkpoint, output / precision, precision.dtype)
    paths = [onnx_path(output, each, precision) for each in components]
    for component, path in zip(components, paths, strict=True):
        _note(path).write_text(_source(checkpoint, component))
        print(f"{component}: {path} {'written' if component in stale else 'is there'}", flush=True)
    return paths


def onnx_path(folder: Path, component: str, precision: Precision) -> Path:
    """Where a component's ONNX file lies: folder/bf16/block.onnx. `fp8` has the VAE in bfloat16."""
    return folder / precision / f"{component}.onnx"


def _is_done(checkpoint: Checkpoint, path: Path) -> bool:
    """Whether the file is there and would come out the same."""
    note = _note(path)
    return path.is_file() and note.is_file() and note.read_text() == _source(checkpoint, path.stem)


def _note(path: Path) -> Path:
    return path.with_suffix(".json")


def _source(checkpoint: Checkpoint, component: str) -> str:
    """What decides how a file comes out."""
    folder = checkpoint.folder / ("transformer" if component == "block" else "vae")
    code = b"".join((ROOT / path).read_bytes() for path in EXPORTED_CODE)
    source = {
        "config_fingerprint": config_fingerprint(folder),
        "weights_fingerprint": None if component == "block" else weights_fingerprint(folder),
        "torch": torch.__version__,
        "code": hashlib.sha256(code).hexdigest(),
    }
    return json.dumps(source, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Export a checkpoint's blocks and VAE to ONNX.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--checkpoint", required=True, help="a folder in the diffusers layout, or a Hugging Face id")
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument("--output", type=Path, default=Path("onnx"))
    parser.add_argument("--precision", choices=[str(each) for each in Precision], default=str(Precision.BF16))
    parser.add_argument("--components", nargs="+", choices=COMPONENTS, default=COMPONENTS)
    options = parser.parse_args()
    try:
        checkpoint = open_checkpoint(resolve_checkpoint(options.checkpoint, options.revision))
        export(checkpoint, options.output, Precision(options.precision), options.components)
    except QwenImageError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
