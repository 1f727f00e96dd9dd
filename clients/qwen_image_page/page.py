"""The page's events: what each click does and which components it updates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from qwen_image_client import AsyncClient, GeneratedImage, Preview, QwenImageClientError
from qwen_image_page.form import Form
from qwen_image_page.form_updates import adapt_to_server, fill_from_recipe
from qwen_image_page.gallery import SessionGallery
from qwen_image_page.layout import RETRY_S, Layout, build_layout
from qwen_image_page.messages import (
    error_message,
    finished_status,
    progress_status,
    recipe_card,
    server_line,
    status_line,
    stopped_status,
    unavailable_banner,
    waiting_status,
)
from qwen_image_page.server_info import ServerInfo, ServerUnavailable, fetch_server_info
from qwen_image_page.settings import PageSettings
from qwen_image_page.tasks import SessionTasks, Stopped
from qwen_image_page.theme import DICE

Updates = dict[Any, Any]
QUIET: Any = {"api_visibility": "private", "show_progress": "hidden"}


class Page:
    """One page for one server. Its client belongs to the event loop that serves it."""

    def __init__(self, settings: PageSettings, root: Path) -> None:
        self._settings = settings
        self._client = AsyncClient(settings.url)
        self._tasks = SessionTasks(settings.max_waiting)
        with gr.Blocks(
            title="Qwen-Image", analytics_enabled=False, delete_cache=(settings.sweep_s, settings.file_age_s)
        ) as self.blocks:
            self._gallery = gr.State(SessionGallery(root), delete_callback=SessionGallery.remove)
            self._server_info = gr.State(None)
            self._timer = gr.Timer(RETRY_S, active=False)
            self._layout = build_layout(settings.default_guidance)
            self._connect()
        # Triton decides how many images are generated at a time; requests wait for it here.
        self.blocks.queue(default_concurrency_limit=None, max_size=settings.max_events, api_open=False)

    async def close(self) -> None:
        await self._tasks.cancel_all()
        await self._client.close()

    def _connect(self) -> None:
        inputs, buttons, outputs = self._layout.inputs, self._layout.buttons, self._layout.outputs
        everything: Any = _components(self._layout) | {self._gallery, self._server_info, self._timer}
        form = {*inputs.by_name().values(), self._gallery, self._server_info}
        gr.on(
            [buttons.generate.click, inputs.prompt.submit, inputs.negative_prompt.submit, inputs.seed.submit],
            self._generate,
            inputs=form,
            outputs=everything,
            trigger_mode="multiple",  # requests wait for each other
            **QUIET,
        )
        buttons.stop.click(self._stop, outputs=[outputs.status], **QUIET)
        buttons.dice.click(None, outputs=[inputs.seed], js=DICE, **QUIET)
        known = [self._server_info, inputs.steps, inputs.scale]
        for trigger in (self.blocks.load, self._timer.tick, buttons.retry.click):
            trigger(self._find_server, inputs=known, outputs=everything, **QUIET)
        outputs.gallery.select(self._select, inputs=[self._gallery], outputs=everything, **QUIET)
        selection = [self._gallery, self._server_info]
        buttons.reuse.click(self._reuse, inputs=selection, outputs=everything, **QUIET)
        buttons.start_from.click(self._start_from, inputs=selection, outputs=everything, **QUIET)
        for mode, tab in self._layout.tabs.by_mode().items():
            tab.select(None, outputs=[inputs.mode], js=f"() => '{mode}'", **QUIET)
        self.blocks.unload(self._leave)

    async def _generate(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncGenerator[Updates, None]:
        """From the form to the image, step by step. Whatever happens, the form stays as it is."""
        form = Form(**{name: values[component] for name, component in self._layout.inputs.by_name().items()})
        gallery, session = values[self._gallery], _session(request)
        try:
            arguments = form.arguments()
            async with aclosing(self._run(form, arguments, gallery, session)) as updates:
                async for update in updates:
                    yield update
        except (QwenImageClientError, OSError) as error:
            message = error_message(error)
            gr.Warning(escape(message), title="No picture")
            status = {self._layout.outputs.status: status_line(message, kind="wrong")}
            is_alone = not self._tasks.is_busy(session)
            yield self._stop_button(session) | status | (self._show_selected(gallery) if is_alone else {})

    async def _run(
        self, form: Form, arguments: dict[str, Any], gallery: SessionGallery, session: str
    ) -> AsyncGenerator[Updates, None]:
        status, reached, started_s = self._layout.outputs.status, status_line("Stopped."), time.monotonic()
        final: Sequence[GeneratedImage] = ()
        try:
            async with self._tasks.run(session, self._previews(form, arguments)) as batches:
                waiting = waiting_status(self._tasks.num_waiting(session))
                yield self._stop_button(session) | {self._gallery: gallery, status: waiting}
                async for batch in batches:
                    reached = stopped_status(batch[-1].step, batch[-1].num_inference_steps)
                    final = batch[-1].images if batch[-1].is_final else ()
                    if not final:
                        yield await self._show_progress(batch, gallery, self._tasks.num_waiting(session))
        except Stopped:
            yield self._stop_button(session) | {status: reached}
            return
        await asyncio.to_thread(gallery.add, final, self._settings.max_gallery_items)
        done = finished_status(len(final), time.monotonic() - started_s)
        yield self._stop_button(session) | self._show_selected(gallery) | {status: done}

    async def _previews(self, form: Form, arguments: Mapping[str, Any]) -> AsyncGenerator[Preview, None]:
        """The stream of a request, closed with its reader."""
        stream = self._client.stream_edit if form.edits else self._client.stream
        every = self._settings.preview_every(form.num_inference_steps)
        async with aclosing(stream(**arguments, preview_every=every)) as previews:
            async for preview in previews:
                yield preview

    async def _show_progress(self, batch: Sequence[Preview], gallery: SessionGallery, waiting: int) -> Updates:
        """The newest step of a batch, with its newest previews: most steps have none."""
        outputs, newest = self._layout.outputs, batch[-1]
        updates: Updates = {outputs.status: progress_status(newest.step, newest.num_inference_steps, waiting)}
        for preview in reversed(batch):
            images = [each.image for each in preview.images if each.image is not None]
            if images:
                path = await asyncio.to_thread(gallery.save_preview, images, self._settings.preview_side)
                return updates | {outputs.stage: str(path), outputs.recipe: ""} | self._image_buttons(interactive=False)
        return updates

    async def _stop(self, request: gr.Request) -> Any:
        """Cancels this session's requests in Triton; `_generate` shows how far they came."""
        await self._tasks.cancel(_session(request))
        return gr.skip()

    async def _leave(self, request: gr.Request) -> None:
        await self._tasks.cancel(_session(request))

    async def _find_server(self, known: ServerInfo | None, steps: float, scale: float) -> Updates:
        outputs = self._layout.outputs
        try:
            info = await fetch_server_info(self._settings.url)
        except ServerUnavailable:
            return {
                outputs.unavailable: gr.update(visible=True),
                outputs.unavailable_message: unavailable_banner(self._settings.url, RETRY_S),
                self._timer: gr.Timer(active=True),
            }
        found = {
            self._server_info: info,
            self._timer: gr.Timer(active=False),
            outputs.unavailable: gr.update(visible=False),
            outputs.server: server_line(info),
        }
        return found if info == known else found | adapt_to_server(self._layout, info, steps, scale)

    def _select(self, gallery: SessionGallery, event: gr.SelectData) -> Updates:
        if isinstance(event.index, int) and event.index < len(gallery.items):
            gallery.selected = gallery.items[event.index]
        return self._show_selected(gallery)

    def _reuse(self, gallery: SessionGallery, info: ServerInfo | None) -> Updates:
        if gallery.selected is None or info is None:
            return {self._gallery: gr.skip()}
        return fill_from_recipe(self._layout, info, gallery.selected.recipe)

    def _start_from(self, gallery: SessionGallery, info: ServerInfo | None) -> Updates:
        """Makes the selected image the input of the next request."""
        if gallery.selected is None or info is None:
            return {self._gallery: gr.skip()}
        inputs, tabs, path = self._layout.inputs, self._layout.tabs, str(gallery.selected.path)
        if info.edits:
            return {inputs.edit_1: path}
        return {inputs.init_image: path, tabs.all: gr.Tabs(selected="picture"), inputs.mode: "picture"}

    def _show_selected(self, gallery: SessionGallery) -> Updates:
        """The selected image on the stage, with its recipe and buttons; no change if there is none yet."""
        if gallery.selected is None:
            return {self._gallery: gr.skip()}
        outputs, item = self._layout.outputs, gallery.selected
        thumbnails = [str(each.thumbnail) for each in gallery.items]
        return {
            self._gallery: gallery,
            outputs.stage: str(item.path),
            outputs.recipe: recipe_card(item.recipe),
            outputs.gallery: gr.Gallery(thumbnails, visible=True, selected_index=gallery.items.index(item)),
            **self._image_buttons(interactive=True),
            self._layout.buttons.download: gr.DownloadButton(value=str(item.path), interactive=True),
        }

    def _image_buttons(self, *, interactive: bool) -> Updates:
        """The buttons that need a finished image."""
        buttons = self._layout.buttons
        return {
            button: gr.update(interactive=interactive)
            for button in (buttons.download, buttons.reuse, buttons.start_from)
        }

    def _stop_button(self, session: str) -> Updates:
        return {self._layout.buttons.stop: gr.update(interactive=self._tasks.is_busy(session))}


def _components(layout: Layout) -> set[Any]:
    groups = (layout.inputs, layout.tabs, layout.buttons, layout.outputs)
    return {getattr(group, name) for group in groups for name in group.__slots__}


def _session(request: gr.Request) -> str:
    return str(request.session_hash)
