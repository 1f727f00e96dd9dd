"""What ends work on the server, and whose."""

from __future__ import annotations

from tests.page.counts import count, wait_until

IN_FLIGHT = "qwen_image_images_in_flight"
CANCELLED = "qwen_image_cancelled_images_total"
FINISHED = "qwen_image_images_total"


def test_stop_ends_the_work_on_the_server_and_the_next_is_painted(visitor, demo_server):
    cancelled, done = count(demo_server, CANCELLED), count(demo_server, FINISHED)
    visitor.paint("a green star", steps=200, count=8)
    visitor.wait_for_a_step()
    visitor.press("stop")
    assert "of 200" in visitor.wait_for_status("Stopped at step")
    wait_until(demo_server, IN_FLIGHT, 0)
    wait_until(demo_server, CANCELLED, cancelled + 8)
    assert count(demo_server, FINISHED) == done
    assert visitor.thumbnails().count() == 0
    visitor.paint("a green star", steps=2, count=1)
    visitor.wait_for_picture()


def test_stop_ends_nobody_elses_picture(visit, demo_page, demo_server):
    one, other = visit(demo_page), visit(demo_page)
    one.paint("a green star", steps=200, count=4)
    other.paint("a purple heart", steps=200, seed=3)
    one.wait_for_a_step()
    other.wait_for_a_step()
    one.press("stop")
    one.wait_for_status("Stopped")
    other.wait_for_picture()
    assert other.recipe()["Steps"] == "200"


def test_closing_the_page_ends_its_work(visit, demo_page, demo_server):
    cancelled = count(demo_server, CANCELLED)
    gone = visit(demo_page)
    gone.paint("a green star", steps=200, count=8)
    gone.wait_for_a_step()
    gone.leave()
    wait_until(demo_server, CANCELLED, cancelled + 8)
    wait_until(demo_server, IN_FLIGHT, 0)
