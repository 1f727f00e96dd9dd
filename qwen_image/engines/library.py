"""The two TensorRT libraries behind one name each. They have the same Python API."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

from qwen_image.errors import EngineError

# Modules to import in order; the last one has the API. TensorRT-RTX's wheel of libraries is loaded by its own module.
LIBRARIES = {
    "tensorrt": ("tensorrt",),
    "tensorrt_rtx": ("tensorrt_rtx_libs", "tensorrt_rtx_bindings"),
}
ENGINES = ("torch", "onnxruntime", *LIBRARIES)  # what the transformer's blocks can run on
INSTALL = {
    "tensorrt": "pip install tensorrt-cu13, of the version of Triton's TensorRT backend; this project's image has it",
    "tensorrt_rtx": "pip install tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings",
}


def load_library(name: str) -> Any:
    """The module. EngineError says how to install it."""
    if name not in LIBRARIES:
        raise EngineError(f"library={name!r} is none of {', '.join(LIBRARIES)}")
    try:
        modules = [importlib.import_module(module) for module in LIBRARIES[name]]
    except ImportError as error:
        raise EngineError(f"{name} can't be loaded ({error}): {INSTALL[name]}") from error
    return modules[-1]


def library_version(name: str) -> str:
    """Of the installed library; engines are built by and for exactly one."""
    if name == "onnxruntime":
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise EngineError(f"{name} is not installed: pip install onnxruntime") from error
    return str(load_library(name).__version__)


def device_capability() -> str | None:
    """Compute capability of the GPU that PyTorch uses, as "9.0"; None without one."""
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"
