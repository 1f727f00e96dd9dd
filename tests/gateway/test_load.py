"""The load test, with few clients and for seconds."""

from __future__ import annotations

import asyncio

from scripts.load_clients import BEHAVIOURS, Load
from scripts.load_http import images_left
from scripts.load_report import Report


def test_clients_that_paint_watch_edit_err_and_leave_at_once_all_get_what_is_right(server, gateway):
    outcomes = asyncio.run(Load(gateway.url, clients=8, seconds=6).run())
    assert {outcome.behaviour for outcome in outcomes} == set(BEHAVIOURS)
    assert Report(outcomes, [], images_left(server.metrics_url)).broken() == []
