"""Refused requests are sent again after a growing pause, and nothing else is."""

import pytest

from qwen_image_client import AsyncClient, Cancelled, Client, InvalidRequest, ServerError, ServerUnavailable, Timeout
from qwen_image_client._call import short_id
from qwen_image_client._settings import RetryPolicy
from tests.client.scripted_server import one_image, refusal, scripted_server

BUSY = refusal(503, "Exceeds maximum queue size")


def test_pauses_grow_and_are_jittered():
    policy = RetryPolicy(retries=10, first_delay_s=0.2, max_delay_s=1.0)
    for attempt, longest in [(1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (10, 1.0)]:
        delays = [policy.delay_s(ServerUnavailable("busy"), attempt, None) for _ in range(50)]
        assert all(longest / 2 <= delay <= longest for delay in delays)
        assert len(set(delays)) > 1


def test_no_pause_outlasts_the_deadline():
    assert RetryPolicy().delay_s(ServerUnavailable("busy"), 1, remaining_s=0.01) is None


@pytest.mark.parametrize("kind", [InvalidRequest, Cancelled, ServerError, Timeout])
def test_an_error_that_may_have_cost_work_is_not_retried(kind):
    assert RetryPolicy().delay_s(kind("no"), 1, None) is None


def test_a_busy_server_is_asked_again_with_the_same_request_id():
    with scripted_server(BUSY, BUSY, one_image()) as server, Client(server.url) as client:
        (image,) = client.generate("a", outputs=())
    assert image.seed == 7
    assert {short_id(request["id"]) for request in server.requests} == {image.recipe.request_id}
    assert [request["id"] for request in server.requests] == [server.requests[0]["id"]] * 3


def test_retries_run_out():
    with (
        scripted_server(BUSY, BUSY, BUSY) as server,
        Client(server.url, retries=1) as client,
        pytest.raises(ServerUnavailable, match="queue size"),
    ):
        client.generate("a", outputs=())
    assert len(server.requests) == 2


def test_an_invalid_request_is_sent_once():
    with (
        scripted_server(refusal(400, "height=17 must be a multiple of 16")) as server,
        Client(server.url) as client,
        pytest.raises(InvalidRequest, match="height=17"),
    ):
        client.generate("a", outputs=())
    assert len(server.requests) == 1
    assert server.cancelled == []


def test_the_deadline_covers_all_attempts():
    with (
        scripted_server(*[BUSY] * 50) as server,
        Client(server.url, retries=50) as client,
        pytest.raises((ServerUnavailable, Timeout)),  # Timeout: the last attempt began just before
    ):
        client.generate("a", outputs=(), timeout_s=0.8)
    assert len(server.requests) < 10


@pytest.mark.asyncio
async def test_the_async_client_retries_alike():
    with scripted_server(BUSY, BUSY, one_image()) as server:
        async with AsyncClient(server.url) as client:
            (image,) = await client.generate("a", outputs=())
    assert {short_id(request["id"]) for request in server.requests} == {image.recipe.request_id}
    assert [request["id"] for request in server.requests] == [server.requests[0]["id"]] * 3
