"""A checkpoint to a GPU repository in one command: ONNX files, engines, rendered repository. What is done is skipped.

python -m build.gpu_repository --checkpoint FOLDER_OR_ID --output /models
"""

from __future__ import annotations

import argparse
from pathlib import Path

from build.engines import Target, add_target_options, build_engines, target_from
from build.export import COMPONENTS, export
from build.profile import GpuProfile
from build.repository import add_options, picked, render_repository
from qwen_image.checkpoint import Checkpoint, open_checkpoint, resolve_checkpoint
from qwen_image.errors import QwenImageError
from qwen_image.params import Limits


def build_gpu_repository(checkpoint: Checkpoint, output: Path, target: Target, limits: Limits) -> Path:
    """`output`/onnx, `output`/engines and `output`/repository, which is returned.

    With TensorRT-RTX, whose engines Triton's TensorRT backend can't load, the VAE stays in PyTorch.
    """
    profile = GpuProfile(engine=target.library, precision=str(target.precision))
    components = COMPONENTS if profile.vae_plan else ("block",)
    export(checkpoint, output / "onnx", target.precision, components)
    build_engines(checkpoint, output / "onnx", output / "engines", target, components)
    return render_repository(
        checkpoint, output / "repository", profile=profile, limits=limits, engines=output / "engines"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build a GPU repository from a checkpoint.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True, help="a folder in the diffusers layout, or a Hugging Face id")
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument("--output", type=Path, default=Path("models"))
    add_target_options(parser)
    add_options(parser, Limits)
    options = parser.parse_args()
    try:
        checkpoint = open_checkpoint(resolve_checkpoint(options.checkpoint, options.revision))
        print(build_gpu_repository(checkpoint, options.output, target_from(options), picked(Limits, options)))
    except QwenImageError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
