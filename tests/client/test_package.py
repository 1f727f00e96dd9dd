"""The package's public names, and the files that ship beside it."""

import ast
import base64
import json
import struct
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

import qwen_image_client
import qwen_image_client.integration
from qwen_image_client import GenerationRequest

CLIENTS = Path(__file__).parents[2] / "clients"
PUBLIC_MODULES = {
    "qwen_image_client": set(qwen_image_client.__all__),
    "qwen_image_client.integration": set(qwen_image_client.integration.__all__),
    "qwen_image_client.cli": {"main"},
}
BUILT_ON_THE_CLIENT = (
    *("clients/qwen_image_client/cli", "clients/qwen_image_gateway", "clients/qwen_image_page"),
    *("build", "demo", "scripts"),
)


def test_every_public_name_exists_and_is_documented():
    for name in qwen_image_client.__all__:
        assert getattr(qwen_image_client, name).__doc__ or name in ("Output", "Task")


def test_the_client_knows_nothing_of_the_server():
    for path in (CLIENTS / "qwen_image_client").rglob("*.py"):
        imports = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        roots = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
        assert not roots & {"qwen_image", "torch", "transformers", "diffusers"}, path


@pytest.mark.parametrize("folder", BUILT_ON_THE_CLIENT)
def test_programs_built_on_the_client_import_its_public_names_alone(folder):
    own = folder.removeprefix("clients/").replace("/", ".")
    for path in (CLIENTS.parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "qwen_image_client":
                is_own = f"{node.module}.".startswith(f"{own}.")
                assert is_own or {alias.name for alias in node.names} <= PUBLIC_MODULES[node.module], path
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("qwen_image_client.") for alias in node.names), path


def test_perf_analyzer_rows_are_requests():
    for path in (CLIENTS / "perf_analyzer").glob("*.json"):
        rows = json.loads(path.read_text())["data"]
        for row in rows:
            values = {name: tensor["content"][0] for name, tensor in row.items() if name != "input_image"}
            assert all(tensor["shape"] == [1] for tensor in row.values())
            assert GenerationRequest(**values)
        assert len({len(row["prompt"]["content"][0]) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ["image_to_image.json", "edit.json"])
def test_perf_analyzers_pictures_are_png_files_of_64_pixels_behind_their_length(name):
    rows = json.loads((CLIENTS / "perf_analyzer" / name).read_text())["data"]
    for row in rows:
        raw = base64.b64decode(row["input_image"]["content"]["b64"])
        assert struct.unpack("<I", raw[:4])[0] == len(raw) - 4
        with Image.open(BytesIO(raw[4:]), formats=["PNG"]) as picture:
            assert picture.size == (64, 64)


@pytest.mark.parametrize("path", sorted((CLIENTS / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_need_nothing_but_the_documented_packages(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
    assert roots <= {"sys", "pathlib", "queue", "numpy", "tritonclient", "PIL"}
