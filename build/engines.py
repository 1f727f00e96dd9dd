"""ONNX files to engines, each with a manifest beside it; what is already there and still right is skipped.

python build/engines.py --checkpoint FOLDER --onnx onnx --output engines --library tensorrt
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from build.export import VAE_COMPONENTS, onnx_path
from build.export_vae import vae_inputs
from build.tensorrt_builder import Shapes, compile_onnx
from qwen_image.checkpoint import Checkpoint, open_checkpoint, resolve_checkpoint
from qwen_image.dit.blocks import empty_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights, Dimensions
from qwen_image.engines.fingerprint import config_fingerprint, file_digest, weights_fingerprint
from qwen_image.engines.library import LIBRARIES, device_capability, library_version
from qwen_image.engines.manifest import Manifest, checked_engine
from qwen_image.engines.profiles import BLOCK_PROFILES, VAE_SIDE, BlockProfile, named, to_json
from qwen_image.errors import EngineError, QwenImageError


@dataclass(frozen=True, slots=True)
class Target:
    """What engines are built with and for."""

    library: str = "tensorrt"
    precision: Precision = Precision.BF16
    profiles: tuple[BlockProfile, ...] = BLOCK_PROFILES
    compute_capability: str | None = None  # None: of the GPU that is there

    @property
    def capabilities(self) -> list[str]:
        """EngineError if there is no GPU to build for."""
        if self.library == "onnxruntime":
            return []
        found = self.compute_capability or device_capability()
        if found is None:
            raise EngineError(
                "no GPU here to build for; TensorRT-RTX builds without one: --library tensorrt_rtx "
                "--compute-capability 8.9 (Ada), 12.0 (Blackwell)"
            )
        return [found]


def build_engines(
    checkpoint: Checkpoint, onnx: Path, output: Path, target: Target, components: Sequence[str] | None = None
) -> list[Path]:
    """Build every component's engine into `output`; their manifests. EngineError says what can't be built, and why."""
    return [
        build_engine(checkpoint, component, onnx_path(onnx, component, target.precision), output, target)
        for component in components or ("block", *VAE_COMPONENTS)
    ]


def build_engine(checkpoint: Checkpoint, component: str, source: Path, output: Path, target: Target) -> Path:
    """One engine and its manifest, whose path is returned."""
    if not source.is_file():
        raise EngineError(f"{source} is missing: python build/export.py writes it")
    described = _description(checkpoint, component, source, target)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{_name(component, described)}.json"
    if _is_done(path, described):
        print(f"{component}: {path.stem} is there")
        return path
    print(f"{component}: building {path.stem}", flush=True)
    engine = path.with_name(f"{path.stem}.{'onnx' if target.library == 'onnxruntime' else 'plan'}")
    with _staged(engine) as staging:
        _write_engine(checkpoint, component, source, staging, target)
    manifest = Manifest(
        **described, engine=engine.name, engine_bytes=engine.stat().st_size, engine_sha256=file_digest(engine)
    )
    with _staged(path) as staging:
        manifest.write(staging)
    return path


def find_manifest(folder: Path, component: str, library: str, precision: Precision) -> Path:
    """The one manifest of that component in a folder of engines. EngineError if there is none, or several."""
    found = sorted(folder.glob(f"{component}.{library}-*.{precision}.*json"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise EngineError(
            f"{folder} must hold one {precision} engine of the {component} for {library}, and holds {names}: "
            "python build/engines.py builds it; remove those of other versions"
        )
    return found[0]


def _write_engine(checkpoint: Checkpoint, component: str, source: Path, staging: Path, target: Target) -> None:
    if target.library == "onnxruntime":
        shutil.copyfile(source, staging)
        return
    plan = compile_onnx(
        source,
        _shapes(checkpoint, component, target),
        library=target.library,
        compute_capability=target.compute_capability,
        may_split_attention=target.precision is Precision.FP32,
    )
    with staging.open("wb") as file:
        file.write(plan)


def _shapes(checkpoint: Checkpoint, component: str, target: Target) -> list[Shapes]:
    if component in VAE_COMPONENTS:
        points = [vae_inputs(checkpoint.family, 1, side, side)[component] for side in VAE_SIDE]
        return [{name: tuple(point[name] for point in points) for name in points[0]}]
    dimensions = CheckpointWeights(checkpoint).dimensions
    return [profile.shapes(dimensions.dim, dimensions.head_dim) for profile in target.profiles]


def _description(checkpoint: Checkpoint, component: str, source: Path, target: Target) -> dict[str, Any]:
    """The manifest's fields that are known before anything is built."""
    is_block = component == "block"
    folder = checkpoint.folder / ("transformer" if is_block else "vae")
    return {
        "component": component,
        "library": target.library,
        "library_version": library_version(target.library),
        "compute_capabilities": target.capabilities,
        "precision": str(target.precision),
        "profiles": [to_json(each) for each in target.profiles] if is_block else [{"side": VAE_SIDE}],
        "weights": _block_weights(CheckpointWeights(checkpoint).dimensions, target.precision) if is_block else {},
        "config_fingerprint": config_fingerprint(folder),
        "weights_fingerprint": None if is_block else weights_fingerprint(folder),
        "onnx_sha256": file_digest(source),
    }


def _block_weights(dimensions: Dimensions, precision: Precision) -> dict[str, list[Any]]:
    parameters = empty_block(dimensions, precision).named_parameters()
    return {name: [str(each.dtype).removeprefix("torch."), list(each.shape)] for name, each in parameters}


def _name(component: str, described: dict[str, Any]) -> str:
    """Component, library, GPU, precision, profiles: block.tensorrt-11.2.0.sm90.bf16.512-1024"""
    gpus = "-".join(f"sm{each.replace('.', '')}" for each in described["compute_capabilities"])
    profiles = "-".join(each.get("name", "") for each in described["profiles"])
    parts = (
        component,
        f"{described['library']}-{described['library_version']}",
        gpus,
        described["precision"],
        profiles,
    )
    return ".".join(part for part in parts if part)


def _is_done(path: Path, described: dict[str, Any]) -> bool:
    """Whether this very engine is there, whole."""
    with suppress(EngineError):
        manifest, _ = checked_engine(
            path,
            library=described["library"],
            library_version=described["library_version"],
            precision=described["precision"],
            config_fingerprint=described["config_fingerprint"],
            weights_fingerprint=described["weights_fingerprint"],
        )
        found = asdict(manifest)
        return all(_as_json(found[name]) == _as_json(value) for name, value in described.items())
    return False


def _as_json(value: Any) -> Any:
    """Tuples as the lists they are read back as."""
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """A name to write to, moved to `path` when all is written."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield staging
        staging.rename(path)
    finally:
        staging.unlink(missing_ok=True)


def add_target_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--library", choices=[*LIBRARIES, "onnxruntime"], default=Target().library)
    parser.add_argument("--precision", choices=[str(each) for each in Precision], default=str(Target().precision))
    names = [profile.name for profile in BLOCK_PROFILES]
    parser.add_argument("--profiles", nargs="+", choices=names, default=names, help="picture sizes to build for")
    parser.add_argument(
        "--compute-capability", help="build for this GPU without having it, TensorRT-RTX only: 8.9, 12.0"
    )


def target_from(options: argparse.Namespace) -> Target:
    return Target(options.library, Precision(options.precision), named(options.profiles), options.compute_capability)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build engines from ONNX files.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True, help="a folder in the diffusers layout, or a Hugging Face id")
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument("--onnx", type=Path, default=Path("onnx"), help="what build/export.py wrote")
    parser.add_argument("--output", type=Path, default=Path("engines"))
    parser.add_argument("--components", nargs="+", choices=("block", *VAE_COMPONENTS))
    add_target_options(parser)
    options = parser.parse_args()
    try:
        checkpoint = open_checkpoint(resolve_checkpoint(options.checkpoint, options.revision))
        build_engines(checkpoint, options.onnx, options.output, target_from(options), options.components)
    except QwenImageError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
