"""The page as part of a FastAPI application."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastapi
import gradio as gr
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse

from qwen_image_client.integration import DEFAULT_GUIDANCE, OnOff
from qwen_image_page.gate import Gate
from qwen_image_page.headers import LocalOnly
from qwen_image_page.look import KEYS, STYLE, theme
from qwen_image_page.page import Page
from qwen_image_page.settings import PageSettings


def mount(app: fastapi.FastAPI, url: str, *, default_guidance: OnOff = DEFAULT_GUIDANCE) -> fastapi.FastAPI:
    """Adds the page under /page, and redirects to it at / and /manifest.json; other paths of `app` stay as they are.

    Args:
        url: Triton's gRPC address. The server may come up later.
        default_guidance: whether the page begins with guidance ticked.

    Raises:
        InvalidRequest: the url is no such address.
    """
    settings = PageSettings(url, default_guidance=default_guidance)
    _ = settings.address
    page = _with_a_loop_running(lambda: _mounted(app, settings))
    for path in ("/", "/manifest.json"):  # gradio's page names the second without its own path before it
        app.add_api_route(path, _leads_to(settings.path + path), include_in_schema=False)
    _close_with(app, page)
    return app


def _mounted(app: fastapi.FastAPI, settings: PageSettings) -> Page:
    folder = private_folder()
    page = Page(settings, folder)
    middleware = [Middleware(LocalOnly), Middleware(Gate, settings=settings, folder=folder)]
    gr.mount_gradio_app(
        app,
        page.blocks,
        settings.path,
        app_kwargs={"middleware": middleware, "docs_url": None, "redoc_url": None, "openapi_url": None},
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=settings.max_file_bytes,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        theme=theme(),
        css_paths=[STYLE],
        js=KEYS,
    )
    # gradio's own server sets these, mounting does not, and gradio checks no path that a browser sends before it has
    # launched: a page would read any file that its process can read.
    page.blocks.has_launched = page.blocks.is_running = True
    return page


def _with_a_loop_running(build: Callable[[], Page]) -> Page:
    """gradio makes an event loop for each of its locks, and leaves it open, where none is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(_coroutine(build))
        finally:
            loop.close()
    return build()


async def _coroutine(build: Callable[[], Page]) -> Page:
    return build()


@functools.cache
def private_folder() -> Path:
    """Where this process keeps the pictures that its page shows: readable for its user alone, gone when the page ends.

    It is gradio's cache too. That is set by the environment only, and files that are in it aren't copied there.
    """
    folder = tempfile.mkdtemp(prefix="qwen_image_page_")
    os.environ["GRADIO_TEMP_DIR"] = folder
    return Path(folder)


def _leads_to(path: str) -> Any:
    def redirect() -> RedirectResponse:
        """Relative, so that it holds behind a proxy's prefix, too."""
        return RedirectResponse(path.lstrip("/"))

    return redirect


def _close_with(app: fastapi.FastAPI, page: Page) -> None:
    """Closes the page's connection and removes its pictures when the application ends."""
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_page(running: fastapi.FastAPI) -> AsyncIterator[Any]:
        async with lifespan(running) as state:
            try:
                yield state
            finally:
                page.blocks.is_running = False  # ends what gradio says to waiting browsers
                await page.close()
                shutil.rmtree(private_folder(), ignore_errors=True)

    app.router.lifespan_context = with_page
