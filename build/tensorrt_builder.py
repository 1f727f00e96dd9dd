"""An ONNX file compiled by TensorRT or TensorRT-RTX: the one place that builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qwen_image.engines.library import load_library
from qwen_image.errors import EngineError

Shapes = Mapping[str, tuple[tuple[int, ...], ...]]  # input name -> its smallest, usual and largest shape


def compile_onnx(
    path: Path,
    profiles: Sequence[Shapes],
    *,
    library: str,
    compute_capability: str | None,
    is_float32: bool = False,
) -> memoryview:
    """The serialized engine of an ONNX file with an optimisation profile for each element of `profiles`.

    `compute_capability`, as "8.9", is for TensorRT-RTX, which builds without a GPU; None is for TensorRT, which builds
    for the GPU that is there. `is_float32` computes in float32 and not in TF32, and allows attention without a fused
    kernel, since there is none in float32. EngineError with what the library said.
    """
    trt = load_library(library)
    log = _log(trt)
    builder = trt.Builder(log)
    network = builder.create_network(_strongly_typed(trt))
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(path)):
        errors = "; ".join(parser.get_error(each).desc() for each in range(parser.num_errors))
        raise EngineError(f"{library} does not take {path}: {errors}")
    config = _config(trt, builder, profiles, compute_capability and capability_of(library, compute_capability))
    if is_float32:
        config.clear_flag(trt.BuilderFlag.TF32)
        _allow_split_attention(trt, network)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise EngineError(f"{library} can't build {path}: {'; '.join(log.errors) or 'it gave no reason'}")
    return memoryview(plan)


def _config(trt: Any, builder: Any, profiles: Sequence[Shapes], compute_capability: Any) -> Any:
    config = builder.create_builder_config()
    config.max_aux_streams = 0  # branches side by side need their memory side by side: the VAE's encoder three times
    if compute_capability is not None:
        config.num_compute_capabilities = 1
        config.set_compute_capability(compute_capability, 0)
    # so that an engine's work can be captured in a CUDA graph; only TensorRT-RTX asks to be told
    if (flag := trt.BuilderFlag.__members__.get("REQUIRE_USER_ALLOCATION")) is not None:
        config.set_flag(flag)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        for name, (least, usual, most) in shapes.items():
            profile.set_shape(name, least, usual, most)
        config.add_optimization_profile(profile)
    return config


def capability_of(library: str, name: str) -> Any:
    """The library's own value for a compute capability, as "8.9". EngineError with those that it can be told of."""
    known = getattr(load_library(library), "ComputeCapability", None)
    member = None if known is None else known.__members__.get(f"SM{name.replace('.', '')}")
    if member is None:
        names = [] if known is None else [each for each in known.__members__ if each.startswith("SM")]
        raise EngineError(
            f"compute_capability={name!r} is none that {library} builds for: "
            f"{', '.join(f'{each[2:-1]}.{each[-1]}' for each in names) or 'the GPU that is there, and no other'}"
        )
    return member


def _strongly_typed(trt: Any) -> int:
    """TensorRT 11 has no other kind of network, and may no longer have the flag."""
    flag = trt.NetworkDefinitionCreationFlag.__members__.get("STRONGLY_TYPED")
    return 0 if flag is None else 1 << int(flag)


def _allow_split_attention(trt: Any, network: Any) -> None:
    for layer in (network.get_layer(each) for each in range(network.num_layers)):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            layer.__class__ = trt.IAttentionInputLayer  # how the Python API narrows a layer's type
            layer.attention.decomposable = True


def _log(trt: Any) -> Any:
    class Log(trt.ILogger):  # type: ignore[misc]
        """Keeps what goes wrong for the error's message."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.errors.append(message)

    return Log()
