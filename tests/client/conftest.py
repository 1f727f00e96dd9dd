"""Sockets that behave badly, and a recipe to save."""

import socket
import threading
from collections.abc import Iterator

import pytest

from qwen_image_client import Recipe


@pytest.fixture
def closed_port() -> int:
    """A port with nothing listening."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@pytest.fixture
def hanging_up_port() -> Iterator[int]:
    """A port that reads a request and hangs up."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=_hang_up_on_everyone, args=(listener,))
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _hang_up_on_everyone(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(
        prompt="a red circle — 红色的圆",
        negative_prompt="",
        seed=-(2**63),
        num_inference_steps=3,
        true_cfg_scale=4.1,
        width=32,
        height=16,
        sigmas=(1.0, 0.6666666, 1 / 3),
        model="qwen_image",
        request_id="0123",
    )
