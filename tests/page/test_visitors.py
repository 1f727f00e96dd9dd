"""What is kept of those who visit the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qwen_image_page.settings import PageSettings
from qwen_image_page.visitors import Refused, Visitors


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In a thread of its own: the browser of other tests has a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(story())).result()


def sent(visitors: Visitors, visitor, folder: Path, name: str, size: int) -> Path:
    visitors.make_room(visitor, size)
    path = folder / name / "picture.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(size))
    visitor.uploads[path] = size
    return path


def test_a_visitors_oldest_uploads_go_first_and_all_go_with_the_visitor(tmp_path):
    async def story() -> None:
        visitors = Visitors(PageSettings("localhost:1", max_visitor_files=2, max_visitor_bytes=100, leave_s=0))
        with visitors.session("token", "tab"):
            visitor = await visitors.wait_for("token", "tab")
            paths = [sent(visitors, visitor, tmp_path, name, 10) for name in "abc"]
            assert [path.exists() for path in paths] == [False, True, True]
            large = sent(visitors, visitor, tmp_path, "large", 95)
            assert [path.exists() for path in (*paths, large)] == [False, False, False, True]
        while large.exists():
            await asyncio.sleep(0)

    run(story)


def test_what_is_too_much_is_refused():
    async def story() -> None:
        settings = PageSettings(
            "localhost:1",
            max_visitors=1,
            max_visitor_sessions=2,
            max_visitor_uploads_at_once=1,
            max_uploaded_bytes=100,
            heartbeat_wait_s=0,
        )
        visitors = Visitors(settings)
        with visitors.session("token", "tab"), visitors.session("token", "tab"):
            visitor = await visitors.wait_for("token")
            with pytest.raises(Refused, match="1 visitors are here"), visitors.session("another", "tab"):
                pass
            with pytest.raises(Refused, match="2 tabs are open"), visitors.session("token", "third"):
                pass
            with pytest.raises(Refused, match="for an open page"):
                await visitors.wait_for("token", "third")
            with visitors.uploading(visitor), pytest.raises(Refused, match="on their way"), visitors.uploading(visitor):
                pass
            with pytest.raises(Refused, match="uploads are held"):
                visitors.make_room(visitor, 101)

    run(story)
