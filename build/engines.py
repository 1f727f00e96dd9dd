"""ONNX files to engines, each with a manifest beside it; what is already there and still right is skipped.

python build/engines.py --checkpoint FOLDER --onnx onnx --output engines --library tensorrt
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from build.command_line import checkpoint_parser, opened_checkpoint
from build.export import check_exported, onnx_path
from build.export_vae import vae_inputs
from build.staging import staged
from build.target import Target, add_target_options, target_from
from build.tensorrt_builder import Shapes, compile_onnx
from qwen_image.checkpoint import Checkpoint
from qwen_image.dit.blocks import empty_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights, Dimensions
from qwen_image.engines.fingerprint import config_fingerprint, file_digest, weights_fingerprint
from qwen_image.engines.library import LIBRARIES, library_version
from qwen_image.engines.manifest import COMPONENTS, VAE_COMPONENTS, Manifest, read_manifest, whole_engine
from qwen_image.engines.profiles import VAE_SIDE, BlockProfile, to_json, with_text
from qwen_image.errors import EngineError


def build_engines(
    checkpoint: Checkpoint, onnx: Path, output: Path, target: Target, components: Sequence[str] = COMPONENTS
) -> list[Path]:
    """Build every component's engine into `output`; their manifests. EngineError says what can't be built, and why."""
    target.check(components)
    return [
        build_engine(checkpoint, component, onnx_path(onnx, component, target.precision), output, target)
        for component in components
    ]


def build_engine(checkpoint: Checkpoint, component: str, source: Path, output: Path, target: Target) -> Path:
    """One engine and its manifest, whose path is returned."""
    check_exported(checkpoint, source)
    described = _description(checkpoint, component, source, target)
    path = output / f"{_name(component, described)}.json"
    if _is_done(path, described):
        print(f"{component}: {path.stem} is there")
        return path
    print(f"{component}: building {path.stem}", flush=True)
    engine = path.with_name(f"{path.stem}.{'onnx' if target.library == 'onnxruntime' else 'plan'}")
    with staged(engine) as staging:
        _write_engine(checkpoint, component, source, staging, target)
    manifest = Manifest(
        **described, engine=engine.name, engine_bytes=engine.stat().st_size, engine_sha256=file_digest(engine)
    )
    with staged(path) as staging:
        manifest.write(staging)
    return path


def profiles_for(checkpoint: Checkpoint, target: Target) -> tuple[BlockProfile, ...]:
    """The target's, with room for the texts of the checkpoint's family."""
    return with_text(target.profiles, checkpoint.max_text_tokens)


def _write_engine(checkpoint: Checkpoint, component: str, source: Path, staging: Path, target: Target) -> None:
    if target.library == "onnxruntime":
        shutil.copyfile(source, staging)
        return
    # TensorRT-RTX that is told of no GPU builds for many, and not for the one that is here
    capability = target.capabilities[0] if target.library == "tensorrt_rtx" else target.compute_capability
    plan = compile_onnx(
        source,
        _shapes(checkpoint, component, target),
        library=target.library,
        compute_capability=capability,
        is_float32=target.precision is Precision.FP32,
    )
    with staging.open("wb") as file:
        file.write(plan)


def _shapes(checkpoint: Checkpoint, component: str, target: Target) -> list[Shapes]:
    if component in VAE_COMPONENTS:
        points = [vae_inputs(checkpoint.family, 1, side, side)[component] for side in VAE_SIDE]
        return [{name: tuple(point[name] for point in points) for name in points[0]}]
    dimensions = CheckpointWeights(checkpoint).dimensions
    return [
        profile.shapes(dimensions.dim, dimensions.head_dim, zero_cond_t=dimensions.zero_cond_t)
        for profile in profiles_for(checkpoint, target)
    ]


def _description(checkpoint: Checkpoint, component: str, source: Path, target: Target) -> dict[str, Any]:
    """The manifest's fields that are known before anything is built."""
    is_block = component == "block"
    folder = checkpoint.folder / ("transformer" if is_block else "vae")
    profiles = [to_json(each) for each in profiles_for(checkpoint, target)] if is_block else [{"side": VAE_SIDE}]
    return {
        "component": component,
        "library": target.library,
        "library_version": library_version(target.library),
        "compute_capabilities": target.capabilities,
        "precision": str(target.precision),
        "profiles": profiles,
        "weights": block_weights(CheckpointWeights(checkpoint).dimensions, target.precision) if is_block else {},
        "config_fingerprint": config_fingerprint(folder),
        "weights_fingerprint": None if is_block else weights_fingerprint(folder),
        "onnx_sha256": file_digest(source),
    }


def block_weights(dimensions: Dimensions, precision: Precision) -> dict[str, list[Any]]:
    """A manifest's `weights`: the inputs of a block's graph that are its parameters."""
    parameters = empty_block(dimensions, precision).named_parameters()
    return {name: [str(each.dtype).removeprefix("torch."), list(each.shape)] for name, each in parameters}


def _name(component: str, described: dict[str, Any]) -> str:
    """Component, library, GPU, precision, profiles: block.tensorrt-11.2.0.sm90.bf16.512-1024"""
    gpus = "-".join(f"sm{each.replace('.', '')}" for each in described["compute_capabilities"])
    profiles = "-".join(each.get("name", "") for each in described["profiles"])
    library = f"{described['library']}-{described['library_version']}"
    return ".".join(part for part in (component, library, gpus, described["precision"], profiles) if part)


def _is_done(path: Path, described: dict[str, Any]) -> bool:
    """Whether this very engine is there, whole."""
    with suppress(EngineError):
        manifest = read_manifest(path)
        found = asdict(manifest)
        if all(_as_json(found[name]) == _as_json(value) for name, value in described.items()):
            whole_engine(path, manifest)
            return True
    return False


def _as_json(value: Any) -> Any:
    """Tuples as the lists they are read back as."""
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


def main() -> None:
    parser = checkpoint_parser("Build engines from ONNX files.")
    parser.add_argument("--onnx", type=Path, default=Path("onnx"), help="what build/export.py wrote")
    parser.add_argument("--output", type=Path, default=Path("engines"), help="the folder to write")
    parser.add_argument("--components", nargs="+", choices=COMPONENTS, default=COMPONENTS, help="what to build")
    add_target_options(parser, libraries=(*LIBRARIES, "onnxruntime"))
    options = parser.parse_args()
    with opened_checkpoint(options) as checkpoint:
        build_engines(checkpoint, options.onnx, options.output, target_from(options), options.components)


if __name__ == "__main__":
    main()
