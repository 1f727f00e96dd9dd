"""What engines are built with and for, checked before anything is built."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from build.command_line import add_precision_option
from build.tensorrt_builder import capability_of
from qwen_image.dit.precision import Precision
from qwen_image.engines.library import LIBRARIES, device_capability, library_version
from qwen_image.engines.profiles import BLOCK_PROFILES, BlockProfile, named
from qwen_image.errors import EngineError

OLDEST_GPU = {Precision.BF16: (8, 0), Precision.FP8: (8, 9)}  # compute capabilities whose tensor cores have it


@dataclass(frozen=True, slots=True)
class Target:
    """`profiles` are those of the table; their text follows the checkpoint's family."""

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

    def check(self, components: Sequence[str]) -> None:
        """EngineError if the library is not installed, or for what it or the GPU does not compute."""
        library_version(self.library)
        if self.library == "onnxruntime" and (list(components) != ["block"] or self.precision is not Precision.FP32):
            raise EngineError(
                f"onnxruntime checks the block, in fp32, and can't take {', '.join(components)} in {self.precision}: "
                "--components block --precision fp32"
            )
        for capability in self.capabilities:
            self._check_gpu(capability)

    def _check_gpu(self, capability: str) -> None:
        oldest = OLDEST_GPU.get(self.precision, (0, 0))
        if _parsed(capability) < oldest:
            raise EngineError(
                f"{self.precision} needs a GPU of compute capability {'.'.join(map(str, oldest))} or newer, this is "
                f"{capability}: choose another --precision"
            )
        if self.library == "tensorrt_rtx" or self.compute_capability is not None:
            capability_of(self.library, capability)


def _parsed(capability: str) -> tuple[int, ...]:
    try:
        major, minor = map(int, capability.split("."))
    except ValueError:
        raise EngineError(f"compute_capability={capability!r} must be two numbers with a point, as 8.9") from None
    return major, minor


def add_target_options(parser: argparse.ArgumentParser, libraries: Sequence[str] = tuple(LIBRARIES)) -> None:
    parser.add_argument("--library", choices=libraries, default=Target().library, help="that compiles the blocks")
    add_precision_option(parser)
    names = [profile.name for profile in BLOCK_PROFILES]
    parser.add_argument("--profiles", nargs="+", choices=names, default=names, help="picture sizes to build for")
    parser.add_argument(
        "--compute-capability", help="build for this GPU without having it, TensorRT-RTX only: 8.9, 12.0"
    )


def target_from(options: argparse.Namespace) -> Target:
    return Target(options.library, Precision(options.precision), named(options.profiles), options.compute_capability)
