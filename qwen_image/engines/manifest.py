"""The manifest beside each engine: what it was built by, for and from. Loading an engine checks it first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from qwen_image.checkpoint.files import read_json
from qwen_image.engines.fingerprint import file_digest
from qwen_image.engines.profiles import BlockProfile, from_json
from qwen_image.errors import CheckpointError, EngineError

VAE_COMPONENTS = ("vae_decoder", "vae_encoder")
COMPONENTS = ("block", *VAE_COMPONENTS)  # what is compiled, an engine each
REBUILD = "build it again: python build/engines.py"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One engine. `profiles` and `weights` are those of a block; of a VAE the profiles are its largest sides."""

    component: str  # of COMPONENTS
    library: str  # tensorrt, tensorrt_rtx, onnxruntime
    library_version: str
    compute_capabilities: list[str]  # GPUs it runs on; none for onnxruntime
    precision: str
    profiles: list[dict[str, Any]]
    weights: dict[str, list[Any]]  # inputs that are a block's weights: name -> [dtype, shape]
    config_fingerprint: str
    weights_fingerprint: str | None  # None: no weights inside
    engine: str  # the file's name, beside the manifest
    engine_bytes: int
    engine_sha256: str
    onnx_sha256: str

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @property
    def block_profiles(self) -> tuple[BlockProfile, ...]:
        return tuple(from_json(profile) for profile in self.profiles)


def read_manifest(path: Path) -> Manifest:
    """EngineError if there is none, or another version of this project wrote it."""
    try:
        contents = read_json(path)
    except CheckpointError as error:
        raise EngineError(f"{error}: {REBUILD}") from error
    wanted = {each.name for each in fields(Manifest)}
    if contents.keys() != wanted:
        differing = ", ".join(sorted(contents.keys() ^ wanted))
        raise EngineError(f"{path} was written by another version of this project ({differing}): {REBUILD}")
    return Manifest(**contents)


def check_fits_checkpoint(
    path: Path,
    manifest: Manifest,
    *,
    component: str,
    library: str,
    precision: str,
    config_fingerprint: str,
    weights_fingerprint: str | None = None,
) -> None:
    """EngineError, with what differs, unless the engine at `path` is that of a component, made from a checkpoint."""
    for what, found, wanted in (
        ("is an engine of the", manifest.component, component),
        ("is for the library", manifest.library, library),
        ("computes in", manifest.precision, precision),
        ("was made for the configuration", manifest.config_fingerprint, config_fingerprint),
        ("holds the weights", manifest.weights_fingerprint, weights_fingerprint),
    ):
        if found != wanted:
            raise EngineError(f"{path} {what} {found}, wanted is {wanted}: {REBUILD}")


def check_fits_machine(
    path: Path, manifest: Manifest, *, library_version: str, compute_capability: str | None = None
) -> None:
    """EngineError unless the library that is installed built it, and for the GPU that is here (None: for none)."""
    if manifest.library_version != library_version:
        raise EngineError(
            f"{path} was built by {manifest.library} {manifest.library_version}, installed is {library_version}: "
            f"{REBUILD}"
        )
    if compute_capability is not None and compute_capability not in manifest.compute_capabilities:
        raise EngineError(
            f"{path} was built for GPUs of compute capability {', '.join(manifest.compute_capabilities)}, this is "
            f"{compute_capability}: {REBUILD}"
        )


def whole_engine(path: Path, manifest: Manifest) -> Path:
    """The engine's file beside the manifest at `path`. EngineError unless it is the one that was built."""
    engine = path.with_name(manifest.engine)
    if not engine.is_file():
        raise EngineError(f"{engine}, which {path} names, is missing: {REBUILD}")
    if engine.stat().st_size != manifest.engine_bytes or file_digest(engine) != manifest.engine_sha256:
        raise EngineError(f"{engine} is not the file that {path} describes: {REBUILD}")
    return engine
