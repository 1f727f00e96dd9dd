"""A checkpoint to a GPU repository in one command: ONNX files, engines, rendered repository. What is done is skipped.

python -m build.gpu_repository --checkpoint FOLDER_OR_ID --output /models
"""

from __future__ import annotations

from pathlib import Path

from build.command_line import checkpoint_parser, opened_checkpoint
from build.compiled import check_limits, check_sides, components_of
from build.engines import build_engines, profiles_for
from build.export import export
from build.options import add_options, picked
from build.repository import render_repository
from build.settings import GpuSettings, Settings
from build.target import Target, add_target_options, target_from
from qwen_image.checkpoint import Checkpoint
from qwen_image.engines.profiles import VAE_SIDE
from qwen_image_contract import Limits

FROM_TARGET = ("engine", "precision")  # settings that follow what is built


def build_gpu_repository(
    checkpoint: Checkpoint, output: Path, target: Target, settings: Settings, limits: Limits
) -> Path:
    """`output`/onnx, `output`/engines and `output`/repository, which is returned.

    With TensorRT-RTX, whose engines Triton's TensorRT backend can't load, the VAE stays in PyTorch. Everything that can
    be refused is refused before the first file is written.
    """
    components = components_of(settings)
    target.check(components)
    check_limits(checkpoint, limits, profiles_for(checkpoint, target))
    if settings.has_vae_plans:
        check_sides(limits, VAE_SIDE)
    export(checkpoint, output / "onnx", target.precision, components)
    engines = build_engines(checkpoint, output / "onnx", output / "engines", target, components)
    return render_repository(checkpoint, output / "repository", settings=settings, limits=limits, engines=engines)


def main() -> None:
    parser = checkpoint_parser("Build a GPU repository from a checkpoint.")
    parser.add_argument("--output", type=Path, default=Path("models"), help="the folder to write")
    add_target_options(parser)
    add_options(parser, GpuSettings, leave_out=FROM_TARGET)
    add_options(parser, Limits)
    options = parser.parse_args()
    with opened_checkpoint(options) as checkpoint:
        target = target_from(options)
        settings = picked(GpuSettings, options, engine=target.library, precision=target.precision)
        print(build_gpu_repository(checkpoint, options.output, target, settings, picked(Limits, options)))


if __name__ == "__main__":
    main()
