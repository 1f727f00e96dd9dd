"""The engines that a repository is rendered with: found, checked against checkpoint and limits, put in their places."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from build.settings import Settings
from qwen_image.checkpoint import Checkpoint
from qwen_image.engines.fingerprint import config_fingerprint, weights_fingerprint
from qwen_image.engines.library import device_capability, library_version
from qwen_image.engines.manifest import (
    VAE_COMPONENTS,
    Manifest,
    check_fits_checkpoint,
    check_fits_machine,
    read_manifest,
    whole_engine,
)
from qwen_image.engines.profiles import BlockProfile, Span, check_covered
from qwen_image.errors import EngineError, RenderError
from qwen_image.request.params import image_tokens
from qwen_image_contract import Limits


@dataclass(frozen=True, slots=True)
class Compiled:
    """None where the settings ask for no engine of that kind."""

    block: Path | None = None  # its manifest: `dit` loads it
    vae_plans: Mapping[str, Path] = field(default_factory=dict)  # by component: Triton's TensorRT backend loads them

    def place(self, repository: Path) -> None:
        """Plans where Triton looks for them, without a second copy if the file system allows it."""
        for component, plan in self.vae_plans.items():
            target = repository / f"{component}_plan" / "1" / "model.plan"
            try:
                os.link(plan, target)
            except OSError:
                shutil.copyfile(plan, target)


def components_of(settings: Settings) -> tuple[str, ...]:
    """Whose engines a repository of these settings runs on."""
    return (*(("block",) if settings.needs_engines else ()), *(VAE_COMPONENTS if settings.has_vae_plans else ()))


def find_manifests(folder: Path, settings: Settings) -> list[Path]:
    """The manifests in a folder of engines that the settings ask for. EngineError if one is missing or ambiguous."""
    return [find_manifest(folder, each, settings.engine, settings.precision) for each in components_of(settings)]


def find_manifest(folder: Path, component: str, library: str, precision: str) -> Path:
    """The one manifest of that component; of several the one that fits the library and the GPU that are here."""
    found = sorted(folder.glob(f"{component}.{library}-*.{precision}.*json"))
    candidates = found if len(found) == 1 else [path for path in found if _fits_here(path)]
    if len(candidates) != 1:
        names = ", ".join(path.name for path in candidates or found) or "none"
        raise EngineError(
            f"{folder} must hold one {precision} engine of the {component} for {library}, and holds {names}: "
            "python build/engines.py builds it; remove those that are not to be served"
        )
    return candidates[0]


def _fits_here(path: Path) -> bool:
    with suppress(EngineError):
        manifest = read_manifest(path)
        check_fits_machine(
            path,
            manifest,
            library_version=_installed(manifest),
            compute_capability=device_capability() if manifest.compute_capabilities else None,
        )
        return True
    return False


def _installed(manifest: Manifest) -> str:
    """A library that is not installed here may serve elsewhere: its version is taken as it is."""
    with suppress(EngineError):
        return library_version(manifest.library)
    return manifest.library_version


def checked(checkpoint: Checkpoint, settings: Settings, limits: Limits, manifests: Sequence[Path]) -> Compiled:
    """The engines of `manifests` that the settings ask for, and no others.

    EngineError: one was made from something else, or does not hold what the limits allow. RenderError: one is not
    among them. Library version and GPU are those of the machine that serves: they are checked there.
    """
    given = {read_manifest(path).component: path.resolve() for path in manifests}
    wanted = components_of(settings)
    if missing := [each for each in wanted if each not in given]:
        raise RenderError(
            f"engine={settings.engine} needs an engine of {', '.join(missing)}: --engines, the folder that "
            "build/engines.py wrote; or --engine torch"
        )
    plans = {each: _checked_engine(each, given[each], checkpoint, settings, limits) for each in wanted}
    return Compiled(given["block"] if plans.pop("block", None) else None, plans)


def _checked_engine(component: str, path: Path, checkpoint: Checkpoint, settings: Settings, limits: Limits) -> Path:
    is_block, manifest = component == "block", read_manifest(path)
    folder = checkpoint.folder / ("transformer" if is_block else "vae")
    check_fits_checkpoint(
        path,
        manifest,
        component=component,
        library=settings.engine,
        precision=settings.precision,
        config_fingerprint=config_fingerprint(folder),
        weights_fingerprint=None if is_block else weights_fingerprint(folder),
    )
    if is_block:
        check_limits(checkpoint, limits, manifest.block_profiles)
    else:
        check_sides(limits, Span(*manifest.profiles[0]["side"]))
    return whole_engine(path, manifest)


def check_limits(checkpoint: Checkpoint, limits: Limits, profiles: Sequence[BlockProfile]) -> None:
    """EngineError unless the profiles hold every call of the transformer that the limits allow."""
    check_covered(
        profiles,
        image_tokens=image_tokens(limits, checkpoint.family),
        max_text_tokens=checkpoint.max_text_tokens,
    )


def check_sides(limits: Limits, side: Span) -> None:
    """EngineError unless the VAE's engines hold every picture that the limits allow."""
    if not (side.holds(limits.min_side) and side.holds(limits.max_side)):
        raise EngineError(
            f"the VAE's engines hold pictures of {side.least} to {side.most} pixels a side; the limits allow "
            f"{limits.min_side} to {limits.max_side}: set --min-side and --max-side"
        )
