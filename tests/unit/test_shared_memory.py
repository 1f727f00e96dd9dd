"""A /dev/shm that requests would fill is named where the server starts: what is there, what is needed."""

from __future__ import annotations

import pytest

from qwen_image.checkpoint import open_checkpoint
from qwen_image.errors import ServerFailed
from qwen_image.serving.shared_memory import check_shared_memory, needed_bytes
from qwen_image_contract import Limits
from tests.conftest import DEMO


@pytest.fixture
def checkpoint(tiny_checkpoint):
    return open_checkpoint(tiny_checkpoint)


def test_it_is_refused_where_one_image_of_the_default_size_does_not_fit(checkpoint):
    height, width = checkpoint.default_size
    one = needed_bytes(checkpoint, 1, height * width)
    with pytest.raises(ServerFailed, match=f"{one - 1} bytes free; one image .* may need {one}: .*--shm-size"):
        check_shared_memory(checkpoint, Limits(), 8, free_bytes=one - 1)


def test_a_warning_says_which_limits_ask_for_more_than_is_there(checkpoint):
    most = needed_bytes(checkpoint, 8, 2048 * 2048)
    assert check_shared_memory(checkpoint, Limits(), 8, free_bytes=most) is None
    warning = check_shared_memory(checkpoint, Limits(), 8, free_bytes=most - 1)
    assert f"{most - 1} bytes free" in warning
    assert f"need {most}" in warning
    assert "--max-rows=8 or --max-pixels=4194304" in warning
    assert check_shared_memory(checkpoint, Limits(max_pixels=1024 * 1024), 8, free_bytes=most - 1) is None


def test_an_image_of_the_demo_fits_what_docker_gives_and_the_largest_request_does_not():
    assert check_shared_memory(open_checkpoint(DEMO), Limits(), 8, free_bytes=64 * 1024 * 1024)
