"""Somebody in front of the page: what they do, and what they see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from PIL import Image

PATIENCE_MS = 60_000
RECORD_STAGE = """() => {
  window.stages = [];
  const look = () => {
    const image = document.querySelector("#stage img");
    if (image && image.src !== window.stages.at(-1)) window.stages.push(image.src);
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""


class Visitor:
    """One browser context, so one session of the page; ready once the page knows its server or says that it doesn't."""

    def __init__(self, context: Any, address: str, folder: Path) -> None:
        self._context = context
        self._folder = folder
        self._address = address
        self._pictures = 0
        self.fetched_elsewhere: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("request", self._note)
        self.page.goto(address)
        self.page.locator(".served, .away").first.wait_for()

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self._address, "data:", "blob:")):
            self.fetched_elsewhere.append(request.url)

    def leave(self) -> None:
        self._context.close()

    def write(self, field: str, text: object) -> None:
        """Into a field of text or a slider's number."""
        box = self.page.locator(f"#{field} textarea, #{field} input[type=number], #{field} input[type=text]").first
        box.fill(str(text))
        box.blur()

    def read(self, field: str) -> str:
        return str(self.page.locator(f"#{field} textarea, #{field} input").first.input_value())

    def upload(self, field: str, picture: Image.Image) -> None:
        """Returns when the page shows it."""
        path = self._folder / f"{field}.png"
        picture.save(path)
        self.page.locator(f"#{field} input[type=file]").first.set_input_files(path)
        if field != "editor":
            self.page.locator(f"#{field} img").wait_for()

    def open_tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    def press(self, button: str) -> None:
        self.page.locator(f"#{button}").click()

    def paint(self, prompt: str, **fields: object) -> None:
        """Presses the button; the fields are named with _ for -."""
        self._pictures = self.thumbnails().count()
        self.write("prompt", prompt)
        for field, value in fields.items():
            self.write(field.replace("_", "-"), value)
        self.press("generate")

    def wait_for_status(self, words: str) -> str:
        self.page.locator("#status", has_text=words).wait_for()
        return str(self.page.locator("#status").inner_text())

    def wait_for_a_step(self) -> None:
        self.page.locator("#status", has_text=re.compile(r"Step \d")).wait_for()

    def wait_for_picture(self) -> None:
        """One more in the gallery than when the last was asked for, and on the stage."""
        self.thumbnails().nth(self._pictures).wait_for()
        self.page.locator("#download:enabled").wait_for()

    def recipe(self) -> dict[str, str]:
        """The card under the picture."""
        card = self.page.locator("#recipe .recipe")
        names, values = card.locator("dt").all_inner_texts(), card.locator("dd").all_inner_texts()
        return {"Prompt": card.locator("p").inner_text(), **dict(zip(names, values, strict=True))}

    def download(self) -> Path:
        with self.page.expect_download() as waiting:
            self.press("download")
        path = self._folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    def brush(self) -> None:
        """One stroke across the middle of the picture to inpaint."""
        canvas = self.page.locator("#editor canvas").first
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x - 40, y)
        self.page.mouse.down()
        self.page.mouse.move(x + 40, y, steps=10)
        self.page.mouse.up()

    def thumbnails(self) -> Any:
        return self.page.locator("#gallery .thumbnail-item")

    def record_stage(self) -> None:
        """From now on `stages` grows with each picture on the stage."""
        self.page.evaluate(RECORD_STAGE)

    def stages(self) -> list[str]:
        return list(self.page.evaluate("window.stages"))

    def fetch(self, url: str) -> bytes:
        answer = self._context.request.get(url)
        assert answer.ok
        return bytes(answer.body())
