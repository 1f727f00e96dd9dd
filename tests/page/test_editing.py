"""A page that is open before its server is, which then has an edit checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qwen_image.launch.tritonserver import Ports, TritonServer
from qwen_image_client import load_recipe
from tests.forwarding import forwarding
from tests.page.conftest import page_over
from tests.pictures import picture


@pytest.fixture(scope="module")
def port() -> int:
    return Ports.free().grpc


@pytest.fixture(scope="module")
def edit_page(browser, port: int, tmp_path_factory) -> Iterator[str]:
    with page_over(f"127.0.0.1:{port}", tmp_path_factory.mktemp("edit_page")) as address:
        yield address


@pytest.fixture(scope="module")
def server_is_there(port: int, edit_server: TritonServer) -> Iterator[None]:
    with forwarding(port, edit_server.grpc_url):
        yield


def test_the_page_waits_for_its_server_and_keeps_what_is_typed(visit, edit_page, request):
    early = visit(edit_page)
    early.page.locator("#away", has_text="not ready yet").wait_for()
    early.paint("make it blue")
    early.wait_for_status("can't be reached")
    request.getfixturevalue("server_is_there")
    early.page.locator("#away").wait_for(state="hidden")
    early.page.locator(".served", has_text="edits pictures").wait_for()
    assert early.read("prompt") == "make it blue"


def test_two_pictures_are_edited_to_one(visit, edit_page, server_is_there):
    visitor = visit(edit_page)
    visitor.upload("edit-1", picture(96, 96, seed=1))
    visitor.upload("edit-2", picture(128, 64, seed=2))
    visitor.paint("put one on the other", steps=3)
    visitor.wait_for_picture()
    recipe = load_recipe(visitor.download())
    assert (recipe.task, len(recipe.image_sha256)) == ("edit", 2)
    assert recipe.width > recipe.height


def test_an_edit_checkpoint_has_no_painting_tabs(visit, edit_page, server_is_there):
    visitor = visit(edit_page)
    visitor.page.locator("#edit-3").wait_for()
    assert not visitor.page.locator("#painting").is_visible()
    visitor.paint("make it blue")
    visitor.wait_for_status("There is no picture to edit")
