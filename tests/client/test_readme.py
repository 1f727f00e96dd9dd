"""What the client's README shows is what the client takes."""

import ast
import inspect
import re
import shlex
from pathlib import Path

import qwen_image_client
from qwen_image_client import AsyncClient, Client, QwenImageClientError
from qwen_image_client._errors import __doc__ as error_tree
from qwen_image_client.cli.arguments import parse

README = (Path(__file__).parents[2] / "clients" / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_every_command_in_the_readme_can_be_parsed():
    for line in "".join(blocks("sh")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "qwen-image"
        assert parse(arguments).command == arguments[0]


def test_every_python_block_in_the_readme_is_python():
    for block in blocks("python"):
        ast.parse(block)


def test_the_clients_are_twins():
    public = [name for name in vars(Client) if not name.startswith("_")]
    assert public == [name for name in vars(AsyncClient) if not name.startswith("_")]
    for name in ("__init__", *public):
        ours, theirs = inspect.getattr_static(Client, name), inspect.getattr_static(AsyncClient, name)
        if inspect.isfunction(ours):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name


def test_the_error_tree_names_every_error():
    kinds = [getattr(qwen_image_client, name) for name in qwen_image_client.__all__]
    errors = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, QwenImageClientError)]
    assert len(errors) == 9
    assert all(error.__name__ in error_tree for error in errors)
