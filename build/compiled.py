"""The engines that a repository is rendered with: found, checked against checkpoint and limits, put in their places."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from build.engines import find_manifest
from build.profile import Profile
from qwen_image.checkpoint import Checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.engines.manifest import Manifest, checked_engine, read_manifest
from qwen_image.engines.profiles import Span, check_covered
from qwen_image.errors import EngineError, RenderError
from qwen_image.params import Limits


@dataclass(frozen=True, slots=True)
class Compiled:
    """None where the profile has no engine of that kind."""

    block: Path | None = None  # its manifest: `dit` loads it
    vae_decoder: Path | None = None  # the plan itself: Triton's TensorRT backend loads it

    def place(self, repository: Path) -> None:
        """Plans where Triton looks for them, without a second copy if the file system allows it."""
        if self.vae_decoder is None:
            return
        target = repository / "vae_decoder_plan" / "1" / "model.plan"
        try:
            os.link(self.vae_decoder, target)
        except OSError:
            shutil.copyfile(self.vae_decoder, target)


def find_compiled(checkpoint: Checkpoint, profile: Profile, limits: Limits, engines: Path | None) -> Compiled:
    """EngineError: one is missing, was made from something else, or does not hold what the limits allow."""
    if not profile.needs_engines:
        return Compiled()
    if engines is None:
        raise RenderError(
            f"engine={profile.engine} needs --engines, the folder that build/engines.py wrote; or --engine torch"
        )
    precision = Precision(profile.precision)
    block = find_manifest(engines, "block", profile.engine, precision)
    manifest, _ = _checked(block, config_fingerprint(checkpoint.folder / "transformer"), None)
    check_covered(
        manifest.block_profiles,
        image_tokens=limits.image_tokens(checkpoint.family),
        max_text_tokens=checkpoint.family.max_sequence_length,
    )
    return Compiled(block.resolve(), _vae_decoder(checkpoint, profile, limits, engines) if profile.vae_plan else None)


def _vae_decoder(checkpoint: Checkpoint, profile: Profile, limits: Limits, engines: Path) -> Path:
    folder = checkpoint.folder / "vae"
    path = find_manifest(engines, "vae_decoder", profile.engine, Precision(profile.precision))
    manifest, plan = _checked(path, config_fingerprint(folder), weights_fingerprint(folder))
    side = Span(*manifest.profiles[0]["side"])
    if not (side.holds(limits.min_side) and side.holds(limits.max_side)):
        raise EngineError(
            f"{path.name} holds pictures of {side.least} to {side.most} pixels a side; the limits allow "
            f"{limits.min_side} to {limits.max_side}: set --min-side and --max-side"
        )
    return plan


def _checked(path: Path, config: str, weights: str | None) -> tuple[Manifest, Path]:
    """Library version and GPU are those of the machine that serves: they are checked there."""
    manifest = read_manifest(path)
    return checked_engine(
        path,
        library=manifest.library,
        library_version=manifest.library_version,
        precision=manifest.precision,
        config_fingerprint=config,
        weights_fingerprint=weights,
    )
