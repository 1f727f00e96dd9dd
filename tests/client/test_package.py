"""The package's public names, and the files that ship beside it."""

import ast
import json
from pathlib import Path

import pytest

import qwen_image_client
from qwen_image_client import GenerationRequest
from qwen_image_client.tensors import INPUT_TYPES

CLIENTS = Path(__file__).parents[2] / "clients"


def test_every_public_name_exists_and_is_documented():
    for name in qwen_image_client.__all__:
        assert getattr(qwen_image_client, name).__doc__ or name == "Output"


def test_the_client_knows_nothing_of_the_server():
    for path in (CLIENTS / "qwen_image_client").rglob("*.py"):
        imports = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        roots = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
        assert not roots & {"qwen_image", "torch", "transformers", "diffusers"}, path


def test_every_request_field_has_a_tensor_type():
    assert list(GenerationRequest.__dataclass_fields__) == list(INPUT_TYPES)


def test_perf_analyzer_rows_are_requests():
    rows = json.loads((CLIENTS / "perf_analyzer" / "prompts.json").read_text())["data"]
    for row in rows:
        values = {name: tensor["content"][0] for name, tensor in row.items()}
        assert all(tensor["shape"] == [1] for tensor in row.values())
        assert GenerationRequest(**values)
    assert len({len(row["prompt"]["content"][0]) for row in rows}) == len(rows)


@pytest.mark.parametrize("path", sorted((CLIENTS / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_need_nothing_but_the_documented_packages(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
    assert roots <= {"sys", "queue", "numpy", "tritonclient", "PIL"}
