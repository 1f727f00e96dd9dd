"""The page's components and where they stand; what they do is in `page`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from qwen_image.request.params import GenerationParams
from qwen_image_client.integration import OnOff
from qwen_image_contract import Limits
from qwen_image_page.facts import Facts
from qwen_image_page.sizes import LIKE_THE_PICTURE, choices

RETRY_S = 5.0
BRUSH_COLOUR = "#ff4d6d"


def before_the_server() -> Facts:
    """What the page shows until a server has said what it is: the product's own defaults."""
    params = GenerationParams(prompt="")
    return Facts(
        edits=False,
        width=params.width,
        height=params.height,
        num_inference_steps=params.num_inference_steps,
        true_cfg_scale=params.true_cfg_scale,
        max_images=2,  # a slider needs a range
        max_pictures=0,
        limits=Limits(),
    )


@dataclass(frozen=True, slots=True)
class Inputs:
    """The components that a `Form` is read from, by its field's names."""

    mode: gr.Textbox
    prompt: gr.Textbox
    negative_prompt: gr.Textbox
    guide_anyway: gr.Checkbox
    text_size: gr.Dropdown
    picture: gr.Image
    picture_strength: gr.Slider
    picture_size: gr.Dropdown
    editor: gr.ImageEditor
    inpaint_strength: gr.Slider
    inpaint_size: gr.Dropdown
    edit_1: gr.Image
    edit_2: gr.Image
    edit_3: gr.Image
    edit_size: gr.Dropdown
    steps: gr.Slider
    scale: gr.Slider
    seed: gr.Textbox
    count: gr.Slider

    def by_name(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Tabs:
    """What is painted from: three tabs on a checkpoint that paints, one group of uploads on one that edits."""

    painting: gr.Column
    editing: gr.Column
    all: gr.Tabs
    text: gr.Tab
    picture: gr.Tab
    inpaint: gr.Tab

    def by_mode(self) -> dict[str, gr.Tab]:
        return {"text": self.text, "picture": self.picture, "inpaint": self.inpaint}


@dataclass(frozen=True, slots=True)
class Buttons:
    """What can be pressed."""

    generate: gr.Button
    stop: gr.Button
    dice: gr.Button
    retry: gr.Button
    download: gr.DownloadButton
    reuse: gr.Button
    start_from: gr.Button


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page answers with."""

    served: gr.HTML
    away: gr.Column
    away_words: gr.HTML
    stage: gr.Image
    status: gr.HTML
    recipe: gr.HTML
    gallery: gr.Gallery


@dataclass(frozen=True, slots=True)
class Layout:
    """All of it."""

    inputs: Inputs
    tabs: Tabs
    buttons: Buttons
    shown: Shown


def build_layout(default_guidance: OnOff) -> Layout:
    """Builds it inside the gr.Blocks that is open."""
    facts = before_the_server()
    with gr.Row(elem_id="head"):
        gr.HTML("<h1>Qwen-Image</h1>")
        served = gr.HTML()
    with gr.Column(visible=False, elem_id="away") as away:
        away_words = gr.HTML()
        retry = gr.Button("Ask again now", size="sm", elem_id="retry")
    with gr.Row(elem_id="columns"):
        with gr.Column(scale=5, min_width=320, elem_id="controls"):
            inputs, tabs, pressed = _controls(facts, default_guidance)
        with gr.Column(scale=7, min_width=320, elem_id="result"):
            shown, made = _result()
    buttons = Buttons(**pressed, **made, retry=retry)
    return Layout(inputs, tabs, buttons, Shown(served=served, away=away, away_words=away_words, **shown))


def _controls(facts: Facts, default_guidance: OnOff) -> tuple[Inputs, Tabs, dict[str, Any]]:
    mode = gr.Textbox("text", visible=False)
    prompt = gr.Textbox(
        label="Prompt", placeholder="What to paint. Enter paints it.", max_lines=8, autofocus=True, elem_id="prompt"
    )
    with gr.Row(elem_id="go"):
        generate = gr.Button("Generate", variant="primary", elem_id="generate", scale=3)
        stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", scale=1)
    negative = gr.Textbox(
        label="Negative prompt", placeholder="What to keep out of it (optional)", max_lines=4, elem_id="negative"
    )
    tabs, pictures = _tabs(facts)
    settings, dice = _settings(facts, default_guidance)
    inputs = Inputs(mode=mode, prompt=prompt, negative_prompt=negative, **pictures, **settings)
    return inputs, tabs, {"generate": generate, "stop": stop, "dice": dice}


def _tabs(facts: Facts) -> tuple[Tabs, dict[str, Any]]:
    fields: dict[str, Any] = {}
    with gr.Column(elem_id="painting") as painting, gr.Tabs(selected="text", elem_id="modes") as all_tabs:
        with gr.Tab("From text", id="text") as text:
            fields["text_size"] = _size(facts, "text")
        with gr.Tab("From a picture", id="picture") as picture:
            fields["picture"] = _upload("Picture to start from", "picture")
            fields["picture_strength"] = _strength(facts, "picture")
            fields["picture_size"] = _size(facts, "picture")
        with gr.Tab("Inpaint", id="inpaint") as inpaint:
            fields["editor"] = _editor()
            fields["inpaint_strength"] = _strength(facts, "inpaint")
            fields["inpaint_size"] = _size(facts, "inpaint")
    with gr.Column(visible=False, elem_id="editing") as editing:
        with gr.Row(elem_id="edited"):
            for number in (1, 2, 3):
                fields[f"edit_{number}"] = _upload(f"Picture {number}", f"edit-{number}")
        fields["edit_size"] = _size(facts, "edit")
    return Tabs(painting, editing, all_tabs, text, picture, inpaint), fields


def _settings(facts: Facts, default_guidance: OnOff) -> tuple[dict[str, Any], gr.Button]:
    fields: dict[str, Any] = {}
    with gr.Row():
        fields["steps"] = _slider(1, facts.limits.max_inference_steps, facts.num_inference_steps, 1, "Steps", "steps")
        fields["count"] = _slider(1, facts.max_images, 1, 1, "Pictures", "count")
    with gr.Group(elem_id="guidance"):
        fields["scale"] = _slider(
            *(0, facts.limits.max_true_cfg_scale, facts.true_cfg_scale, 0.1, "Guidance", "scale"),
            info="How strictly to follow the prompt and avoid the negative one. Works above 1; takes twice the time.",
        )
        fields["guide_anyway"] = gr.Checkbox(
            label="Also without a negative prompt", value=default_guidance == "on", elem_id="guide-anyway"
        )
    with gr.Row(elem_id="seed-row"):
        fields["seed"] = gr.Textbox(
            label="Seed", placeholder="Empty: another one each time", elem_id="seed", scale=5, max_lines=1
        )
        dice = gr.Button("⚄", elem_id="dice", scale=0, min_width=56)
    return fields, dice


def _slider(
    least: float, most: float, value: float, step: float, label: str, name: str, info: str | None = None
) -> gr.Slider:
    return gr.Slider(least, most, value, step=step, label=label, info=info, buttons=[], elem_id=name)


def _result() -> tuple[dict[str, Any], dict[str, Any]]:
    stage = gr.Image(
        type="filepath",
        label="Picture",
        show_label=False,
        interactive=False,
        buttons=["fullscreen"],
        placeholder="Your picture appears here.",
        elem_id="stage",
    )
    status = gr.HTML(elem_id="status")
    with gr.Row(elem_id="actions"):
        download = gr.DownloadButton("Download PNG", size="sm", interactive=False, elem_id="download")
        reuse = gr.Button("Use its settings", size="sm", interactive=False, elem_id="reuse")
        start_from = gr.Button("Start from it", size="sm", interactive=False, elem_id="start-from")
    recipe = gr.HTML(elem_id="recipe")
    gallery = gr.Gallery(
        label="This session's pictures",
        show_label=False,
        columns=6,
        fit_columns=False,
        height="auto",
        object_fit="cover",
        allow_preview=False,
        interactive=False,
        buttons=[],
        visible=False,
        elem_id="gallery",
    )
    shown = {"stage": stage, "status": status, "recipe": recipe, "gallery": gallery}
    return shown, {"download": download, "reuse": reuse, "start_from": start_from}


def _size(facts: Facts, mode: str) -> gr.Dropdown:
    offered = choices(facts, with_picture=mode != "text")
    value = offered[0][1] if mode == "text" else LIKE_THE_PICTURE
    return gr.Dropdown(offered, value=value, label="Size", filterable=False, elem_id=f"{mode}-size")


def _strength(facts: Facts, mode: str) -> gr.Slider:
    info = "How far from the picture to go. At 1 hardly anything of it is left."
    return _slider(0.05, 1, facts.strength, 0.05, "Strength", f"{mode}-strength", info=info)


def _upload(label: str, name: str) -> gr.Image:
    """The file itself is what the server gets: no `image_mode`, so that gradio doesn't encode it anew."""
    return gr.Image(
        type="filepath",
        image_mode=None,
        label=label,
        sources=["upload", "clipboard"],
        buttons=[],
        height=220,
        elem_id=name,
    )


def _editor() -> gr.ImageEditor:
    return gr.ImageEditor(
        type="pil",
        label="Brush over what is to be painted",
        sources=["upload", "clipboard"],
        buttons=[],
        brush=gr.Brush(colors=[BRUSH_COLOUR], default_color=BRUSH_COLOUR, color_mode="fixed"),
        layers=gr.LayerOptions(allow_additional_layers=False, disabled=True),
        transforms=(),
        format="png",
        height=420,
        elem_id="editor",
    )
