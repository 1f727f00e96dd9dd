"""What the page does: its events, and the answer of each."""

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
from qwen_image_page import words
from qwen_image_page.album import Album
from qwen_image_page.facts import Facts, ServerAway, ask_server
from qwen_image_page.fitting import fitted, refilled
from qwen_image_page.form import Form
from qwen_image_page.layout import RETRY_S, Layout, build_layout
from qwen_image_page.look import DICE
from qwen_image_page.runs import Runs, Stopped
from qwen_image_page.settings import PageSettings

Updates = dict[Any, Any]
QUIET: Any = {"api_visibility": "private", "show_progress": "hidden"}


class Page:
    """One page for one server. Its client belongs to the event loop that serves it."""

    def __init__(self, settings: PageSettings, root: Path) -> None:
        self._settings = settings
        self._client = AsyncClient(settings.url)
        self._runs = Runs(settings.max_waiting)
        with gr.Blocks(
            title="Qwen-Image", analytics_enabled=False, delete_cache=(settings.sweep_s, settings.file_age_s)
        ) as self.blocks:
            self._album = gr.State(Album(root), delete_callback=Album.remove)
            self._facts = gr.State(None)
            self._timer = gr.Timer(RETRY_S, active=False)
            self._layout = build_layout(settings.default_guidance)
            self._connect()
        # Triton decides how many pictures are painted at a time; here they only wait for it.
        self.blocks.queue(default_concurrency_limit=None, max_size=settings.max_events, api_open=False)

    async def close(self) -> None:
        await self._runs.stop_all()
        await self._client.close()

    def _connect(self) -> None:
        inputs, buttons, shown = self._layout.inputs, self._layout.buttons, self._layout.shown
        everything: Any = _components(self._layout) | {self._album, self._facts, self._timer}
        form = {*inputs.by_name().values(), self._album, self._facts}
        gr.on(
            [buttons.generate.click, inputs.prompt.submit, inputs.negative_prompt.submit, inputs.seed.submit],
            self._paint,
            inputs=form,
            outputs=everything,
            trigger_mode="multiple",  # they wait for each other
            **QUIET,
        )
        buttons.stop.click(self._stop, outputs=[shown.status], **QUIET)
        buttons.dice.click(None, outputs=[inputs.seed], js=DICE, **QUIET)
        asked = [self._facts, inputs.steps, inputs.scale]
        for trigger in (self.blocks.load, self._timer.tick, buttons.retry.click):
            trigger(self._look_for_server, inputs=asked, outputs=everything, **QUIET)
        shown.gallery.select(self._pick, inputs=[self._album], outputs=everything, **QUIET)
        buttons.reuse.click(self._reuse, inputs=[self._album, self._facts], outputs=everything, **QUIET)
        buttons.start_from.click(self._start_from, inputs=[self._album, self._facts], outputs=everything, **QUIET)
        for mode, tab in self._layout.tabs.by_mode().items():
            tab.select(None, outputs=[inputs.mode], js=f"() => '{mode}'", **QUIET)
        self.blocks.unload(self._leave)

    async def _paint(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncGenerator[Updates, None]:
        """From the form to the picture, step by step. Whatever happens, the form stays as it is."""
        form = Form(**{name: values[component] for name, component in self._layout.inputs.by_name().items()})
        album, session = values[self._album], _session(request)
        try:
            arguments = form.arguments()
            async with aclosing(self._painted(form, arguments, album, session)) as updates:
                async for update in updates:
                    yield update
        except (QwenImageClientError, OSError) as error:
            message = words.in_words(error)
            gr.Warning(escape(message), title="No picture")
            status = {self._layout.shown.status: words.status(message, kind="wrong")}
            is_alone = not self._runs.is_busy(session)
            yield self._stop_button(session) | status | (self._shown(album) if is_alone else {})

    async def _painted(
        self, form: Form, arguments: dict[str, Any], album: Album, session: str
    ) -> AsyncGenerator[Updates, None]:
        status, reached, began = self._layout.shown.status, words.status("Stopped."), time.monotonic()
        final: Sequence[GeneratedImage] = ()
        try:
            async with self._runs.started(session, self._previews(form, arguments)) as batches:
                waiting = words.waiting(self._runs.waiting(session))
                yield self._stop_button(session) | {self._album: album, status: waiting}
                async for batch in batches:
                    reached = words.stopped(batch[-1].step, batch[-1].num_inference_steps)
                    final = batch[-1].images if batch[-1].is_final else ()
                    if not final:
                        yield await self._on_the_way(batch, album, self._runs.waiting(session))
        except Stopped:
            yield self._stop_button(session) | {status: reached}
            return
        await asyncio.to_thread(album.add, final, self._settings.max_shots)
        done = words.finished(len(final), time.monotonic() - began)
        yield self._stop_button(session) | self._shown(album) | {status: done}

    async def _previews(self, form: Form, arguments: Mapping[str, Any]) -> AsyncGenerator[Preview, None]:
        """The stream of a request, ended when its reader leaves."""
        stream = self._client.stream_edit if form.edits else self._client.stream
        every = self._settings.preview_every(form.num_inference_steps)
        async with aclosing(stream(**arguments, preview_every=every)) as previews:
            async for preview in previews:
                yield preview

    async def _on_the_way(self, batch: Sequence[Preview], album: Album, waiting: int) -> Updates:
        """The newest step of a batch, with its newest pictures: most steps have none."""
        shown, newest = self._layout.shown, batch[-1]
        updates: Updates = {shown.status: words.progress(newest.step, newest.num_inference_steps, waiting)}
        for preview in reversed(batch):
            pictures = [each.image for each in preview.images if each.image is not None]
            if pictures:
                path = await asyncio.to_thread(album.preview, pictures, self._settings.preview_side)
                return updates | {shown.stage: str(path), shown.recipe: ""} | self._picture_buttons(interactive=False)
        return updates

    async def _stop(self, request: gr.Request) -> Any:
        """Ends this session's work in Triton. `_paint` then says how far it came, so here is nothing to say."""
        await self._runs.stop(_session(request))
        return gr.skip()

    async def _leave(self, request: gr.Request) -> None:
        await self._runs.stop(_session(request))

    async def _look_for_server(self, known: Facts | None, steps: float, scale: float) -> Updates:
        shown = self._layout.shown
        try:
            facts = await ask_server(self._settings.address)
        except ServerAway:
            banner = {shown.away: gr.update(visible=True), shown.away_words: words.away(self._settings.url, RETRY_S)}
            return banner | {self._timer: gr.Timer(active=True)}
        found = {
            self._facts: facts,
            self._timer: gr.Timer(active=False),
            shown.away: gr.update(visible=False),
            shown.served: words.served(facts),
        }
        return found if facts == known else found | fitted(self._layout, facts, steps, scale)

    def _pick(self, album: Album, event: gr.SelectData) -> Updates:
        """The gallery's picture on the stage."""
        if isinstance(event.index, int) and event.index < len(album.shots):
            album.picked = album.shots[event.index]
        return self._shown(album)

    def _reuse(self, album: Album, facts: Facts | None) -> Updates:
        if album.picked is None or facts is None:
            return {self._album: gr.skip()}
        return refilled(self._layout, facts, album.picked.recipe)

    def _start_from(self, album: Album, facts: Facts | None) -> Updates:
        """The picture on the stage as what the next is made from."""
        if album.picked is None or facts is None:
            return {self._album: gr.skip()}
        inputs, tabs, path = self._layout.inputs, self._layout.tabs, str(album.picked.path)
        if facts.edits:
            return {inputs.edit_1: path}
        return {inputs.picture: path, tabs.all: gr.Tabs(selected="picture"), inputs.mode: "picture"}

    def _shown(self, album: Album) -> Updates:
        """The picked picture on the stage, with all that is said and done of it; nothing if there is none yet."""
        if album.picked is None:
            return {self._album: gr.skip()}
        shown, shot = self._layout.shown, album.picked
        thumbnails = [str(each.thumbnail) for each in album.shots]
        return {
            self._album: album,
            shown.stage: str(shot.path),
            shown.recipe: words.recipe_card(shot.recipe),
            shown.gallery: gr.Gallery(thumbnails, visible=True, selected_index=album.shots.index(shot)),
            **self._picture_buttons(interactive=True),
            self._layout.buttons.download: gr.DownloadButton(value=str(shot.path), interactive=True),
        }

    def _picture_buttons(self, *, interactive: bool) -> Updates:
        """What can be done with a finished picture, and not with one on its way."""
        buttons = self._layout.buttons
        return {
            button: gr.update(interactive=interactive)
            for button in (buttons.download, buttons.reuse, buttons.start_from)
        }

    def _stop_button(self, session: str) -> Updates:
        return {self._layout.buttons.stop: gr.update(interactive=self._runs.is_busy(session))}


def _components(layout: Layout) -> set[Any]:
    groups = (layout.inputs, layout.tabs, layout.buttons, layout.shown)
    return {getattr(group, name) for group in groups for name in group.__slots__}


def _session(request: gr.Request) -> str:
    return str(request.session_hash)
