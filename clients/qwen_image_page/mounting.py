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
from qwen_image_page.gate import GateMiddleware
from qwen_image_page.headers import LocalOnlyMiddleware
from qwen_image_page.page import Page
from qwen_image_page.settings import PageSettings
from qwen_image_page.theme import KEYS, STYLE, make_theme


def mount(app: fastapi.FastAPI, url: str, *, default_guidance: OnOff = DEFAULT_GUIDANCE) -> fastapi.FastAPI:
    """Adds the page under /page, and redirects to it at / and /manifest.json; other paths of `app` stay as they are.

    Args:
        url: Triton's gRPC address. The server may come up later.
        default_guidance: whether guidance is ticked when the page is opened.

    Raises:
        InvalidRequest: the url isn't such an address.
    """
    settings = PageSettings(url, default_guidance=default_guidance)
    _ = settings.address
    page = _call_in_event_loop(lambda: _mount_blocks(app, settings))
    for path in ("/", "/manifest.json"):  # gradio's page links the second without the page's path
        app.add_api_route(path, _redirect_to(settings.path + path), include_in_schema=False)
    _close_page_with(app, page)
    return app


def _mount_blocks(app: fastapi.FastAPI, settings: PageSettings) -> Page:
    folder = private_folder()
    page = Page(settings, folder)
    middleware = [Middleware(LocalOnlyMiddleware), Middleware(GateMiddleware, settings=settings, folder=folder)]
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
        theme=make_theme(),
        css_paths=[STYLE],
        js=KEYS,
    )
    # gradio's own server sets these, mounting doesn't. Without them gradio checks no path that a browser sends, and the
    # page would read any file that its process can read.
    page.blocks.has_launched = page.blocks.is_running = True
    return page


def _call_in_event_loop(build: Callable[[], Page]) -> Page:
    """Where no event loop is running gradio makes one for each of its locks and never closes it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(_call(build))
        finally:
            loop.close()
    return build()


async def _call(build: Callable[[], Page]) -> Page:
    return build()


@functools.cache
def private_folder() -> Path:
    """The folder of the page's images: readable for its user alone, removed when the page ends.

    It is gradio's cache too, which only the environment sets; gradio doesn't copy files that are already in it.
    """
    folder = tempfile.mkdtemp(prefix="qwen_image_page_")
    os.environ["GRADIO_TEMP_DIR"] = folder
    return Path(folder)


def _redirect_to(path: str) -> Any:
    def redirect() -> RedirectResponse:
        """Relative, so that it holds behind a proxy's prefix, too."""
        return RedirectResponse(path.lstrip("/"))

    return redirect


def _close_page_with(app: fastapi.FastAPI, page: Page) -> None:
    """Closes the page's connection and removes its images when the application ends."""
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_page(running: fastapi.FastAPI) -> AsyncIterator[Any]:
        async with lifespan(running) as state:
            try:
                yield state
            finally:
                page.blocks.is_running = False  # ends gradio's streams to browsers
                await page.close()
                shutil.rmtree(private_folder(), ignore_errors=True)

    app.router.lifespan_context = with_page
