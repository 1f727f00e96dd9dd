"""A checkpoint to ONNX files; what is already there and still right is skipped.

python build/export.py --checkpoint FOLDER --output onnx --precision bf16
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from build.command_line import add_precision_option, checkpoint_parser, opened_checkpoint
from build.export_block import export_block
from build.export_vae import export_vae
from build.onnx_export import data_path
from build.staging import staged
from qwen_image.checkpoint import Checkpoint
from qwen_image.checkpoint.files import read_json
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.engines.manifest import COMPONENTS, VAE_COMPONENTS
from qwen_image.errors import CheckpointError, EngineError

ROOT = Path(__file__).resolve().parents[1]
CODE = {  # what decides how a component's file comes out, apart from the checkpoint
    "block": (
        *(f"qwen_image/dit/{name}.py" for name in ("block", "blocks", "fp8", "precision", "weights")),
        *("build/onnx_export.py", "build/export_block.py"),
    ),
    **dict.fromkeys(VAE_COMPONENTS, ("qwen_image/vae/vae.py", "build/onnx_export.py", "build/export_vae.py")),
}
LIBRARIES = ("torch", "diffusers", "onnxscript", "onnx-ir")


def export(
    checkpoint: Checkpoint, output: Path, precision: Precision, components: Sequence[str] = COMPONENTS
) -> list[Path]:
    """Write the components' ONNX files under `output` and return them, each with a note of what it was made from."""
    paths = {each: onnx_path(output, each, precision) for each in components}
    stale = [each for each, path in paths.items() if not _is_done(checkpoint, path)]
    for component in stale:  # a note never stands beside files that it does not describe
        _note(paths[component]).unlink(missing_ok=True)
    if "block" in stale:
        export_block(CheckpointWeights(checkpoint).dimensions, paths["block"], precision)
    if halves := [each for each in VAE_COMPONENTS if each in stale]:
        export_vae(checkpoint, output / precision, precision.dtype, halves)
    for component, path in paths.items():
        if component in stale:
            with staged(_note(path)) as staging:
                staging.write_text(json.dumps(_origin(checkpoint, path), indent=2) + "\n", encoding="utf-8")
        print(f"{component}: {path} {'written' if component in stale else 'is there'}", flush=True)
    return list(paths.values())


def onnx_path(folder: Path, component: str, precision: Precision) -> Path:
    """Where a component's ONNX file lies: folder/bf16/block.onnx. `fp8` has the VAE in bfloat16."""
    return folder / precision / f"{component}.onnx"


def check_exported(checkpoint: Checkpoint, path: Path) -> None:
    """EngineError unless `path` was exported from this checkpoint by this code; its libraries may be others."""
    if not path.is_file():
        raise EngineError(f"{path} is missing: python build/export.py writes it")
    noted, wanted = _noted(path), _origin(checkpoint, path)
    if {**noted, "libraries": None} != {**wanted, "libraries": None}:
        raise EngineError(f"{path} was exported from another checkpoint or by other code: python build/export.py")


def _is_done(checkpoint: Checkpoint, path: Path) -> bool:
    """Whether the file is there, whole, and would come out the same."""
    return path.is_file() and _noted(path) == _origin(checkpoint, path)


def _note(path: Path) -> Path:
    return path.with_suffix(".json")


def _noted(path: Path) -> dict[str, Any]:
    """A note that is missing or broken says nothing."""
    try:
        return read_json(_note(path))
    except CheckpointError:
        return {}


def _origin(checkpoint: Checkpoint, path: Path) -> dict[str, Any]:
    """What decides how a component's file comes out, and how large the weights beside it are."""
    component = path.stem
    folder = checkpoint.folder / ("transformer" if component == "block" else "vae")
    data = data_path(path)
    return {
        "config_fingerprint": config_fingerprint(folder),
        "weights_fingerprint": None if component == "block" else weights_fingerprint(folder),
        "data_bytes": data.stat().st_size if data.is_file() else None,
        "code": hashlib.sha256(b"".join((ROOT / each).read_bytes() for each in CODE[component])).hexdigest(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def main() -> None:
    parser = checkpoint_parser("Export a checkpoint's blocks and VAE to ONNX.")
    parser.add_argument("--output", type=Path, default=Path("onnx"), help="the folder to write")
    add_precision_option(parser)
    parser.add_argument("--components", nargs="+", choices=COMPONENTS, default=COMPONENTS, help="what to export")
    options = parser.parse_args()
    with opened_checkpoint(options) as checkpoint:
        export(checkpoint, options.output, Precision(options.precision), options.components)


if __name__ == "__main__":
    main()
