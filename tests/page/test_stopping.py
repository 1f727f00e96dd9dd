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
    one.paint("a green star", steps=200, count=2)
    other.paint("a purple heart", steps=60, seed=3)
    one.wait_for_a_step()
    other.wait_for_a_step()
    one.press("stop")
    one.wait_for_status("Stopped")
    other.wait_for_picture()
    assert other.recipe()["Steps"] == "60"


def test_closing_the_page_ends_its_work(visit, demo_page, demo_server):
    cancelled = count(demo_server, CANCELLED)
    gone = visit(demo_page)
    gone.paint("a green star", steps=200, count=4)
    gone.wait_for_a_step()
    gone.leave()
    wait_until(demo_server, CANCELLED, cancelled + 4)
    wait_until(demo_server, IN_FLIGHT, 0)


def test_requests_wait_for_each_other_up_to_a_limit_and_stop_ends_them_all(visitor, demo_server):
    visitor.paint("a green star", steps=200)
    visitor.wait_for_a_step()
    for _ in range(9):
        visitor.press("generate")
    visitor.page.locator(".toast-body", has_text="8 requests are waiting").wait_for()
    visitor.wait_for_status("8 waiting")
    visitor.press("stop")
    visitor.wait_for_status("Stopped")
    visitor.page.locator("#stop:disabled").wait_for()
    wait_until(demo_server, IN_FLIGHT, 0)
    visitor.paint("a purple heart", steps=4, seed=1)
    visitor.paint("a green star", seed=2)
    visitor.thumbnails().nth(1).wait_for()
    assert visitor.thumbnails().count() == 2
    assert visitor.recipe()["Seed"] == "2"
