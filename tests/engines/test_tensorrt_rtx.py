"""Real TensorRT-RTX builds, without a GPU: tiny and full size, from the files that ONNX Runtime checks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel

from build import gpu_repository
from build.compiled import find_manifest
from build.engines import build_engines
from build.export import export, onnx_path
from build.repository import parse_config, render_repository
from build.settings import GpuSettings
from build.target import Target
from build.tensorrt_builder import compile_onnx
from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights
from qwen_image.engines.library import library_version, load_library
from qwen_image.engines.manifest import COMPONENTS, read_manifest
from qwen_image.engines.profiles import BLOCK_PROFILES, named
from qwen_image.errors import EngineError, RenderError
from qwen_image.families import QWEN_IMAGE
from qwen_image_contract import Limits

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
ADA, BLACKWELL = "8.9", "12.0"
MEBIBYTE = 1024**2


@pytest.fixture(scope="module")
def full_size(tmp_path_factory) -> Checkpoint:
    """The 20 B model's configurations, and the full VAE with random weights; of the transformer nothing is read."""
    folder = tmp_path_factory.mktemp("full_size")
    (folder / "transformer").mkdir()
    config = {**QwenImageTransformer2DModel.from_config({"num_layers": 0}).config, "num_layers": 60}
    (folder / "transformer" / "config.json").write_text(json.dumps(config))
    AutoencoderKLQwenImage().save_pretrained(folder / "vae")
    return Checkpoint(folder, QWEN_IMAGE)


@pytest.fixture
def block(exported) -> Path:
    """The folder with the tiny checkpoint's block in bfloat16."""
    return exported(Precision.BF16, "block")


@pytest.mark.parametrize("precision", list(Precision))
def test_a_tiny_block_builds_in_every_precision(checkpoint, exported, tmp_path, precision):
    target = Target("tensorrt_rtx", precision, named(["512", "1024"]), ADA)
    (path,) = build_engines(checkpoint, exported(precision, "block"), tmp_path / "engines", target, ["block"])
    version = library_version("tensorrt_rtx")
    assert path.name == f"block.tensorrt_rtx-{version}.sm89.{precision}.512-1024.json"
    assert read_manifest(path).compute_capabilities == [ADA]


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP8])
def test_one_engine_without_weights_serves_all_sixty_full_size_blocks(full_size, tmp_path, precision):
    target = Target("tensorrt_rtx", precision, BLOCK_PROFILES, ADA)
    export(full_size, tmp_path / "onnx", precision, ["block"])
    (path,) = build_engines(full_size, tmp_path / "onnx", tmp_path / "engines", target, ["block"])
    manifest = read_manifest(path)
    assert manifest.engine_bytes < 64 * MEBIBYTE  # one block's weights have 680 in bfloat16
    assert manifest.block_profiles == BLOCK_PROFILES
    assert manifest.weights["img_mlp.net.0.proj.weight"] == [
        "bfloat16" if precision is Precision.BF16 else "float8_e4m3fn",
        [12288, 3072],
    ]
    assert [path.name for path in (tmp_path / "engines").iterdir() if path.suffix == ".tmp"] == []


def test_the_full_size_vae_builds(full_size, tmp_path):
    target = Target("tensorrt_rtx", Precision.BF16, BLOCK_PROFILES, ADA)
    components = ["vae_decoder", "vae_encoder"]
    export(full_size, tmp_path / "onnx", Precision.BF16, components)
    for path in build_engines(full_size, tmp_path / "onnx", tmp_path / "engines", target, components):
        manifest = read_manifest(path)
        assert manifest.profiles == [{"side": [64, 1328, 2048]}]
        assert manifest.weights_fingerprint is not None
        weights = onnx_path(tmp_path / "onnx", manifest.component, Precision.BF16).with_suffix(".onnx.data")
        assert manifest.engine_bytes < 1.5 * weights.stat().st_size


def test_bfloat16_attention_has_a_kernel_of_its_own(checkpoint, exported):
    """Only float32 may be split into several kernels: a bfloat16 block that needs it would not build."""
    dimensions = CheckpointWeights(checkpoint).dimensions
    shapes = [profile.shapes(dimensions.dim, dimensions.head_dim) for profile in named(["512"])]
    with pytest.raises(EngineError, match=r"Attention operation was not supported by a dedicated kernel"):
        compile_onnx(
            onnx_path(exported(Precision.FP32, "block"), "block", Precision.FP32),
            shapes,
            library="tensorrt_rtx",
            compute_capability=ADA,
            is_float32=False,
        )


def test_a_gpu_that_can_not_be_built_for_is_named_with_those_that_can(checkpoint, block, tmp_path):
    target = Target("tensorrt_rtx", Precision.BF16, named(["512"]), "9.0")
    with pytest.raises(EngineError, match=r"'9.0' is none that tensorrt_rtx builds for: 7\.5, 8\.0, 8\.6, 8\.9, 12\.0"):
        build_engines(checkpoint, block, tmp_path / "engines", target, ["block"])


def test_without_a_capability_the_engine_is_for_the_gpu_that_is_here(checkpoint, block, tmp_path, monkeypatch):
    """Untold, the library builds for several; the GPU is PyTorch's word here."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: (8, 6))
    plans = []
    for capability in (None, "8.6"):
        target = Target("tensorrt_rtx", Precision.BF16, named(["512"]), capability)
        (path,) = build_engines(checkpoint, block, tmp_path / str(capability), target, ["block"])
        assert read_manifest(path).compute_capabilities == ["8.6"]
        plans.append(path.with_name(read_manifest(path).engine).stat().st_size)
    assert plans[0] == plans[1]


def test_an_edits_engine_has_room_for_its_pictures(tiny_edit_plus_checkpoint, tmp_path):
    checkpoint = open_checkpoint(tiny_edit_plus_checkpoint)
    export(checkpoint, tmp_path / "onnx", Precision.BF16, ["block"])
    target = Target("tensorrt_rtx", Precision.BF16, named(["512"]), ADA)
    (path,) = build_engines(checkpoint, tmp_path / "onnx", tmp_path / "engines", target, ["block"])
    (profile,) = read_manifest(path).block_profiles
    assert profile.text_tokens.most == checkpoint.max_text_tokens > 1024


def test_an_engine_for_another_gpu_does_not_count_as_built(checkpoint, block, tmp_path, capsys):
    for capability in (ADA, BLACKWELL, ADA):
        target = Target("tensorrt_rtx", Precision.BF16, named(["512"]), capability)
        build_engines(checkpoint, block, tmp_path / "engines", target, ["block"])
    printed = capsys.readouterr().out
    assert (printed.count("block: building"), printed.count("is there")) == (2, 1)


@pytest.fixture(scope="module")
def engines(checkpoint, exported, tmp_path_factory) -> list[Path]:
    """Manifests of the tiny checkpoint's, of 512 and 1024."""
    target = Target("tensorrt_rtx", Precision.BF16, named(["512", "1024"]), ADA)
    return build_engines(checkpoint, exported(Precision.BF16, *COMPONENTS), tmp_path_factory.mktemp("engines"), target)


LIMITS = Limits(max_pixels=1024 * 1024)


def test_a_repository_for_tensorrt_rtx_names_the_engine_and_keeps_the_vae_in_pytorch(checkpoint, engines, tmp_path):
    chosen = GpuSettings(engine="tensorrt_rtx")
    repository = render_repository(checkpoint, tmp_path / "out", settings=chosen, limits=LIMITS, engines=engines)
    assert not (repository / "vae_decoder_plan").exists()
    settings = parameters(repository, "dit")
    manifest = find_manifest(engines[0].parent, "block", "tensorrt_rtx", "bf16")
    assert (settings["engine"], settings["engine_manifest"]) == ("tensorrt_rtx", str(manifest))
    assert (settings["precision"], settings["device"]) == ("bf16", "cuda")
    assert settings["max_image_tokens"] == "4096"
    assert parameters(repository, "vae_decoder")["plan"] == ""


def test_a_repository_for_tensorrt_has_the_vae_on_tritons_backend(checkpoint, engines, tmp_path):
    """The plans are TensorRT-RTX's here, under the other library's name: rendering only places them."""
    (tmp_path / "engines").mkdir()
    for path in engines:
        renamed = json.loads(path.read_text()) | {"library": "tensorrt"}
        target = tmp_path / "engines" / path.name.replace("tensorrt_rtx", "tensorrt")
        target.write_text(json.dumps(renamed))
        (target.parent / renamed["engine"]).hardlink_to(path.with_name(renamed["engine"]))
    manifests = sorted((tmp_path / "engines").glob("*.json"))
    repository = render_repository(
        checkpoint, tmp_path / "out", settings=GpuSettings(), limits=LIMITS, engines=manifests
    )
    for component in ("vae_decoder", "vae_encoder"):
        config = parse_config(repository, (repository / f"{component}_plan" / "config.pbtxt").read_text())
        assert (config.platform, config.max_batch_size) == ("tensorrt_plan", 1)
        plan = find_manifest(tmp_path / "engines", component, "tensorrt", "bf16")
        served = repository / f"{component}_plan" / "1" / "model.plan"
        assert served.samefile(plan.with_name(read_manifest(plan).engine))
    assert parameters(repository, "vae_decoder")["plan"] == "vae_decoder_plan"


def test_an_engine_of_another_component_is_not_taken_for_one(checkpoint, engines, tmp_path):
    with pytest.raises(RenderError, match=r"^engine=tensorrt_rtx needs an engine of block: --engines, the folder"):
        render_repository(
            checkpoint, tmp_path / "out", settings=GpuSettings(engine="tensorrt_rtx"), engines=engines[1:]
        )


def test_one_command_builds_a_repository_and_a_second_time_only_renders(checkpoint, tmp_path, monkeypatch, capsys):
    options = ["--checkpoint", str(checkpoint.folder), "--output", str(tmp_path), "--library", "tensorrt_rtx"]
    options += ["--compute-capability", ADA, "--precision", "fp8", "--profiles", "512", "--max-pixels", "262144"]
    options += ["--max-images-in-flight", "5"]
    monkeypatch.setattr("sys.argv", ["gpu_repository.py", *options])
    gpu_repository.main()
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "repository")
    assert parameters(tmp_path / "repository", "dit")["precision"] == "fp8"
    assert parameters(tmp_path / "repository", "sampler")["max_images_in_flight"] == "5"
    gpu_repository.main()
    assert capsys.readouterr().out.count("is there") == 2


def test_limits_beyond_the_engines_are_found_when_rendering(checkpoint, engines, tmp_path):
    settings = GpuSettings(engine="tensorrt_rtx")
    with pytest.raises(EngineError, match=r"hold no 2 rows of 4097 image tokens .* which the limits allow"):
        render_repository(checkpoint, tmp_path / "out", settings=settings, engines=engines)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profiles", "512"], r"hold no 2 rows of 1025 image tokens"),
        (["--precision", "fp8", "--compute-capability", "8.6"], r"fp8 needs a GPU of compute capability 8\.9 or newer"),
    ],
    ids=["limits", "precision"],
)
def test_one_command_refuses_what_can_not_work_before_it_writes(checkpoint, tmp_path, monkeypatch, options, message):
    fixed = ["--checkpoint", str(checkpoint.folder), "--output", str(tmp_path), "--library", "tensorrt_rtx"]
    monkeypatch.setattr("sys.argv", ["gpu_repository.py", *fixed, "--compute-capability", ADA, *options])
    with pytest.raises(SystemExit, match=rf"^error: .*{message}"):
        gpu_repository.main()
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_needs_engines_says_so(checkpoint, tmp_path):
    with pytest.raises(RenderError, match=r"^engine=tensorrt needs an engine of block, vae_decoder, vae_encoder: "):
        render_repository(checkpoint, tmp_path / "out", settings=GpuSettings())


def test_the_runtime_calls_only_what_the_library_has():
    """The runtime itself needs a GPU that TensorRT runs on; that its calls exist can be seen without one."""
    trt = load_library("tensorrt_rtx")
    source = (ROOT / "qwen_image" / "dit" / "tensorrt_blocks.py").read_text()
    for pattern, owner in (
        (r"self\._engine\.(\w+)", trt.ICudaEngine),
        (r"context\.(\w+)\(", trt.IExecutionContext),
        (r"config\.(\w+)", trt.IRuntimeConfig),
        (r"strategies\.(\w+)", trt.DynamicShapesKernelSpecializationStrategy),
        (r"self\._runtime\.(\w+)", trt.Runtime),
        (r"library\.ExecutionContextAllocationStrategy\.(\w+)", trt.ExecutionContextAllocationStrategy),
    ):
        used = set(re.findall(pattern, source))
        assert used, pattern
        assert {name for name in used if not hasattr(owner, name)} == set(), owner


def parameters(repository: Path, model: str) -> dict[str, str]:
    path = repository / model / "config.pbtxt"
    return {name: each.string_value for name, each in parse_config(path, path.read_text()).parameters.items()}
