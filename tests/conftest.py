"""What all tests share: a tiny random checkpoint, one real tritonserver over it, and its exported files."""

from __future__ import annotations

import os
from pathlib import Path

# Without a GPU Triton's language is interpreted where it finds this, at its own import and wherever a kernel is defined
# (tests/fused). Servers that tests start must not find it.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"
    import triton.experimental.gluon  # noqa: F401

    del os.environ["TRITON_INTERPRET"]

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from build.export import export
from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.precision import Precision
from qwen_image.launch.tritonserver import TritonServer
from qwen_image_contract import Limits
from tests.servers import serving

DEMO = Path(__file__).parents[1] / "demo" / "checkpoint"


@pytest.fixture(scope="session")
def slow() -> None:
    """For fixtures that start a server or a browser, train, build or interpret kernels: marks their tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if "slow" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder in the diffusers layout; its default size is 128 x 128."""
    return write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def tiny_edit_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that edits one picture: conditions of 112 x 112 pixels, references of 128 x 128."""
    folder = tmp_path_factory.mktemp("edit_checkpoint") / "tiny"
    return write_tiny_checkpoint(folder, pipeline="QwenImageEditPipeline")


@pytest.fixture(scope="session")
def tiny_edit_plus_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that edits up to three pictures, and modulates their tokens as the checkpoints since 2511 do."""
    folder = tmp_path_factory.mktemp("edit_plus_checkpoint") / "tiny"
    return write_tiny_checkpoint(folder, pipeline="QwenImageEditPlusPipeline", zero_cond_t=True)


@pytest.fixture(scope="session")
def server(slow, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A real tritonserver over the tiny checkpoint; tests that need other settings start their own."""
    with serving(tiny_checkpoint, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def edit_server(
    slow, tiny_edit_plus_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonServer]:
    """One over the tiny checkpoint that edits up to three pictures, of sides up to 256 pixels."""
    folder = tmp_path_factory.mktemp("edit_server")
    with serving(tiny_edit_plus_checkpoint, folder, limits=Limits(max_side=256)) as running:
        yield running


@pytest.fixture(scope="session")
def demo_server(slow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """One over the demo's checkpoint, which paints what it is told."""
    with serving(DEMO, tmp_path_factory.mktemp("demo_server")) as running:
        yield running


@pytest.fixture(scope="session")
def exported(slow, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The tiny checkpoint's ONNX files of a precision, for all tests: whoever changes them copies them first.

    `exported(Precision.FP32, "block")` is the folder that build/export.py was told to write.
    """
    folder, checkpoint = tmp_path_factory.mktemp("onnx"), open_checkpoint(tiny_checkpoint)

    def export_once(precision: Precision, *components: str) -> Path:
        export(checkpoint, folder, precision, components)
        return folder

    return export_once


@pytest.fixture
def at_once() -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]]:
    """Calls a function for every item, all at the same time; the results in order."""
    with ThreadPoolExecutor(32) as pool:
        yield lambda function, items: list(pool.map(function, items))
