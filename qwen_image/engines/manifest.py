"""The manifest beside each engine: what it was built by, for and from. Loading an engine checks it first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from qwen_image.checkpoint import read_json
from qwen_image.engines.fingerprint import file_digest
from qwen_image.engines.profiles import BlockProfile, from_json
from qwen_image.errors import CheckpointError, EngineError

REBUILD = "build it again: python build/engines.py"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One engine. `profiles` and `inputs` are those of a block; of a VAE the profiles are its largest sides."""

    component: str  # block, vae_decoder, vae_encoder
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


def checked_engine(
    path: Path,
    *,
    library: str,
    library_version: str,
    precision: str,
    config_fingerprint: str,
    weights_fingerprint: str | None = None,
    compute_capability: str | None = None,
) -> tuple[Manifest, Path]:
    """A manifest and the engine file beside it. EngineError names what differs and says to build again."""
    manifest = read_manifest(path)
    for what, found, wanted in (
        ("is for the library", manifest.library, library),
        (f"was built by {library}", manifest.library_version, library_version),
        ("computes in", manifest.precision, precision),
        ("was made for the configuration", manifest.config_fingerprint, config_fingerprint),
        ("holds the weights", manifest.weights_fingerprint, weights_fingerprint),
    ):
        if found != wanted:
            raise EngineError(f"{path} {what} {found}, wanted is {wanted}: {REBUILD}")
    if compute_capability is not None and compute_capability not in manifest.compute_capabilities:
        built_for = ", ".join(manifest.compute_capabilities)
        raise EngineError(
            f"{path} was built for GPUs of compute capability {built_for}, this is {compute_capability}: {REBUILD}"
        )
    engine = path.with_name(manifest.engine)
    if not engine.is_file():
        raise EngineError(f"{engine}, which {path} names, is missing: {REBUILD}")
    if engine.stat().st_size != manifest.engine_bytes or file_digest(engine) != manifest.engine_sha256:
        raise EngineError(f"{engine} is not the file that {path} describes: {REBUILD}")
    return manifest, engine
