"""Ending requests by id, in one process and across several."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import AsyncExitStack

import pytest

from qwen_image.request import cancellation
from qwen_image.request.cancellation import LONGEST_REQUEST_ID, Registry, cancel_everywhere, listen, sockets_folder


def test_cancelling_ends_the_request_and_counts_its_images():
    registry = Registry()
    ticket, other = registry.enter("a", 3), registry.enter("b", 2)
    assert registry.cancel("a") == 3
    assert ticket.is_cancelled
    assert not other.is_cancelled


def test_an_id_that_nobody_holds_ends_no_image():
    registry = Registry()
    registry.enter("a", 1)
    assert registry.cancel("b") == 0


def test_ending_a_request_twice_counts_it_once():
    registry = Registry()
    registry.enter("a", 3)
    assert [registry.cancel("a"), registry.cancel("a")] == [3, 0]


def test_every_request_of_one_id_is_ended():
    registry = Registry()
    tickets = [registry.enter("a", images) for images in (1, 2, 4)]
    registry.leave(tickets[1])
    assert registry.cancel("a") == 5
    assert [ticket.is_cancelled for ticket in tickets] == [True, False, True]


def test_a_request_that_has_left_is_not_ended():
    registry = Registry()
    ticket = registry.enter("a", 1)
    registry.leave(ticket)
    registry.leave(ticket)
    assert registry.cancel("a") == 0
    assert not ticket.is_cancelled


def test_a_request_that_arrives_after_its_cancellation_is_ended_on_arrival():
    registry = Registry()
    assert registry.cancel("a") == 0
    assert registry.enter("a", 1).is_cancelled
    assert registry.enter("a", 1).is_cancelled
    assert not registry.enter("b", 1).is_cancelled


def test_a_request_that_was_ended_on_arrival_is_not_counted_again():
    registry = Registry()
    registry.cancel("a")
    registry.enter("a", 3)
    assert registry.cancel("a") == 0


def test_a_request_without_an_id_can_not_be_named():
    registry = Registry()
    registry.cancel("")
    ticket = registry.enter("", 1)
    assert registry.cancel("") == 0
    assert not ticket.is_cancelled
    registry.leave(ticket)


def test_an_ended_id_is_forgotten_after_a_while(monkeypatch):
    registry = Registry()
    registry.cancel("a")
    monkeypatch.setattr(cancellation, "REMEMBER_S", -1.0)
    assert not registry.enter("a", 1).is_cancelled


def test_of_many_ended_ids_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(cancellation, "REMEMBER_MOST", 2)
    registry = Registry()
    for request_id in "abac":  # ended again, `a` is newer than `b`
        registry.cancel(request_id)
    assert [registry.enter(request_id, 1).is_cancelled for request_id in "abc"] == [True, False, True]


def listening(folder, *registries):
    """Serves each registry at a socket of its own for the length of a story."""

    async def run(story):
        async with AsyncExitStack() as stack:
            for number, registry in enumerate(registries):
                await stack.enter_async_context(await listen(registry, folder / f"{number}.sock"))
            return await asyncio.to_thread(story)

    return lambda story: asyncio.run(run(story))


@pytest.mark.parametrize(
    "request_id", ["a", "séance 七 🌟", "with spaces and 'quotes'", "x" * LONGEST_REQUEST_ID, "é" * 512]
)
def test_a_request_is_ended_in_whichever_process_holds_it(tmp_path, request_id):
    first, second = Registry(), Registry()
    here, other = second.enter(request_id, 4), first.enter("other", 1)
    ended = listening(tmp_path, first, second)(lambda: cancel_everywhere(request_id, tmp_path))
    assert ended == 4
    assert here.is_cancelled
    assert not other.is_cancelled


def test_images_of_one_id_are_counted_over_all_processes(tmp_path):
    first, second = Registry(), Registry()
    tickets = [first.enter("a", 1), second.enter("a", 2), second.enter("a", 4)]
    ended = listening(tmp_path, first, second)(
        lambda: [cancel_everywhere("a", tmp_path), cancel_everywhere("a", tmp_path)]
    )
    assert ended == [7, 0]
    assert all(ticket.is_cancelled for ticket in tickets)


def test_every_process_remembers_an_id_that_none_holds(tmp_path):
    first, second = Registry(), Registry()
    assert listening(tmp_path, first, second)(lambda: cancel_everywhere("a", tmp_path)) == 0
    assert first.enter("a", 1).is_cancelled
    assert second.enter("a", 1).is_cancelled


def leave_a_stale_socket(path):
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_the_socket_of_a_process_that_has_ended_is_passed_over(tmp_path):
    registry = Registry()
    registry.enter("a", 2)
    leave_a_stale_socket(tmp_path / "a.sock")
    leave_a_stale_socket(tmp_path / "z.sock")
    assert listening(tmp_path, registry)(lambda: cancel_everywhere("a", tmp_path)) == 2


def test_a_process_takes_the_place_of_the_one_before_it(tmp_path):
    registry = Registry()
    registry.enter("a", 2)
    leave_a_stale_socket(tmp_path / "0.sock")
    assert listening(tmp_path, registry)(lambda: cancel_everywhere("a", tmp_path)) == 2


def test_where_nobody_listens_nothing_is_ended(tmp_path):
    assert cancel_everywhere("a", tmp_path) == 0


def test_the_sockets_are_in_a_folder_for_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(cancellation, "_TEMPORARY", tmp_path)
    folder = sockets_folder()
    assert folder == sockets_folder()
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
