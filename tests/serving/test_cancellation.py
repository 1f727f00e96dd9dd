"""Ending work by request id, through the ensembles."""

from __future__ import annotations

import threading
import time
import uuid

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.serving.raw import ask, cancel, statistics, stream

LONG = {"height": 512, "width": 512, "num_inference_steps": 150}


class Running:
    """A long request in a thread of its own, and what became of it."""

    def __init__(self, server, protocol: str = "grpc", rows: int = 1, **values) -> None:
        self.request_id = uuid.uuid4().hex
        self.error: InferenceServerException | None = None
        self._arguments = {"protocol": protocol, "outputs": ("latents",), "request_id": self.request_id, **LONG}
        self._arguments |= values
        self._thread = threading.Thread(target=self._run, args=(server, rows))
        steps = statistics(server, "dit").execution_count
        self._thread.start()
        while statistics(server, "dit").execution_count < steps + 5:
            time.sleep(0.01)

    def _run(self, server, rows: int) -> None:
        try:
            ask(server, ["a long one"] * rows, **self._arguments)
        except InferenceServerException as error:
            self.error = error

    def end(self) -> InferenceServerException | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.error


@pytest.mark.parametrize(("protocol", "status"), [("grpc", "StatusCode.CANCELLED"), ("http", "400")])
def test_a_cancelled_request_ends_within_two_steps(server, protocol, status):
    running = Running(server, protocol)
    assert cancel(server, running.request_id) == 1
    after_cancel = statistics(server, "dit").execution_count
    error = running.end()
    time.sleep(0.3)
    assert error is not None
    assert error.status() == status
    assert running.request_id in error.message()
    assert statistics(server, "dit").execution_count <= after_cancel + 2


def test_every_row_of_a_request_is_ended_and_counted(server):
    running = Running(server, rows=2)
    assert cancel(server, running.request_id) == 2
    assert running.end() is not None


def test_batch_mates_of_a_cancelled_request_are_untouched_and_the_next_works(server):
    mate = {"height": 512, "width": 512, "num_inference_steps": 60, "seed": 4, "outputs": ("latents",)}
    alone = ask(server, "a mate", **mate)["latents"]
    running = Running(server)
    results = {}
    before = shared_steps(server)
    thread = threading.Thread(target=lambda: results.update(ask(server, "a mate", **mate)))
    thread.start()
    while shared_steps(server) < before + 3:
        assert thread.is_alive()
        time.sleep(0.01)
    cancel(server, running.request_id)
    running.end()
    thread.join(60)
    assert np.abs(results["latents"] - alone).max() < 1e-4
    assert np.abs(ask(server, "a mate", **mate)["latents"] - alone).max() < 1e-4


def shared_steps(server) -> int:
    """Steps that were computed in the batch of another."""
    found = statistics(server, "dit")
    return found.inference_count - found.execution_count


def test_a_stream_is_cancelled_too(server):
    request_id = uuid.uuid4().hex
    seen = 0
    with pytest.raises(InferenceServerException, match="cancelled"):
        for _ in stream(server, "a long one", outputs=("step",), request_id=request_id, **LONG):
            seen += 1
            if seen == 5:
                assert cancel(server, request_id) == 1
    assert seen < 30


def test_cancelling_ahead_of_a_request_that_is_still_on_its_way_ends_it_on_arrival(server):
    request_id = uuid.uuid4().hex
    assert cancel(server, request_id) == 0
    with pytest.raises(InferenceServerException, match=f"request {request_id} was cancelled"):
        ask(server, "late", request_id=request_id)


def test_an_id_nobody_uses_ends_nothing(server):
    running = Running(server, num_inference_steps=30)
    assert cancel(server, uuid.uuid4().hex) == 0
    assert running.end() is None


@pytest.mark.parametrize("request_id", ["", "two\nlines", "x" * 1100])
def test_what_can_not_be_an_id_is_refused(server, request_id):
    with pytest.raises(InferenceServerException, match="must be the id of a request"):
        cancel(server, request_id)
