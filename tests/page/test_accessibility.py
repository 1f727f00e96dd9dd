"""What those see, hear or touch who don't use the page with a mouse: axe-core looks at it in each of its states."""

from __future__ import annotations

import pytest
from PIL import Image

pytest.importorskip("playwright.sync_api")
axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")

from tests.page.visitor import Visitor  # noqa: E402

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def faults(visitor: Visitor) -> list[str]:
    """What axe-core calls critical or serious."""
    found = axe_playwright.Axe().run(visitor.page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("critical", "serious")
        for node in each["nodes"]
    ]


def test_the_page_can_be_used_by_everybody_in_each_of_its_states(visitor):
    found = {"start": faults(visitor)}
    visitor.paint("a purple heart", steps=200)
    visitor.wait_for_a_step()
    found["painting"] = faults(visitor)
    visitor.press("stop")
    visitor.wait_for_status("Stopped")
    visitor.paint("a purple heart", steps=2, count=2)
    visitor.wait_for_picture()
    found["finished"] = faults(visitor)
    visitor.paint("a purple heart", seed="-5")
    visitor.wait_for_status("seed=-5")
    found["refused"] = faults(visitor)
    visitor.page.emulate_media(color_scheme="dark")
    visitor.page.reload()
    visitor.page.locator(".served").wait_for()
    found["dark"] = faults(visitor)
    assert {state: each for state, each in found.items() if each} == {}


def test_the_tools_to_brush_with_are_large_enough_for_a_finger(browser, demo_page, tmp_path):
    visitor = Visitor(browser.new_context(**PHONE), demo_page, tmp_path)
    visitor.open_tab("Inpaint")
    visitor.page.locator("#editor canvas").first.wait_for()
    visitor.upload("editor", Image.new("RGB", (128, 128), "yellow"))
    visitor.page.get_by_label("Brush").first.wait_for()
    found = faults(visitor)
    buttons = [each for each in visitor.page.locator('#editor :is(button, [role="button"])').all() if each.is_visible()]
    boxes = {each.get_attribute("aria-label"): each.bounding_box() for each in buttons}
    shown = visitor.page.locator("#editor .toolbar-wrap").first.bounding_box()["width"]
    visitor.leave()
    assert shown >= 44  # what is beyond it is cut off
    assert {"Brush", "Erase", "Undo"} <= boxes.keys()
    assert {name: box for name, box in boxes.items() if min(box["width"], box["height"]) < 44} == {}
    assert found == []
