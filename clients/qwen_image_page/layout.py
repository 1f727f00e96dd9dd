"""The page's components and their layout; `page` has their events."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from qwen_image_client.integration import OnOff
from qwen_image_page.server_info import ServerInfo, default_server_info
from qwen_image_page.sizes import LIKE_INPUT_IMAGE, size_choices

RETRY_S = 5.0
BRUSH_COLOUR = "#ff4d6d"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The components that a `Form` is read from, by the names of its fields."""

    mode: gr.Textbox
    prompt: gr.Textbox
    negative_prompt: gr.Textbox
    guide_anyway: gr.Checkbox
    text_size: gr.Dropdown
    init_image: gr.Image
    init_strength: gr.Slider
    init_size: gr.Dropdown
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
    """Three tabs on a checkpoint that generates, one group of uploads on one that edits."""

    generating: gr.Column
    editing: gr.Column
    all: gr.Tabs
    text: gr.Tab
    picture: gr.Tab
    inpaint: gr.Tab

    def by_mode(self) -> dict[str, gr.Tab]:
        return {"text": self.text, "picture": self.picture, "inpaint": self.inpaint}


@dataclass(frozen=True, slots=True)
class Buttons:
    """Every button."""

    generate: gr.Button
    stop: gr.Button
    dice: gr.Button
    retry: gr.Button
    download: gr.DownloadButton
    reuse: gr.Button
    start_from: gr.Button


@dataclass(frozen=True, slots=True)
class Outputs:
    """The components that show the server and the results."""

    server: gr.HTML
    unavailable: gr.Column
    unavailable_message: gr.HTML
    stage: gr.Image
    status: gr.HTML
    recipe: gr.HTML
    gallery: gr.Gallery


@dataclass(frozen=True, slots=True)
class Layout:
    """Every component of the page."""

    inputs: Inputs
    tabs: Tabs
    buttons: Buttons
    outputs: Outputs


def build_layout(default_guidance: OnOff) -> Layout:
    """Builds the components inside the open gr.Blocks."""
    info = default_server_info()
    with gr.Row(elem_id="head"):
        gr.HTML("<h1>Qwen-Image</h1>")
        server = gr.HTML()
    with gr.Column(visible=False, elem_id="away") as unavailable:
        unavailable_message = gr.HTML()
        retry = gr.Button("Ask again now", size="sm", elem_id="retry")
    with gr.Row(elem_id="columns"):
        with gr.Column(scale=5, min_width=320, elem_id="controls"):
            inputs, tabs, control_buttons = _controls(info, default_guidance)
        with gr.Column(scale=7, min_width=320, elem_id="result"):
            results, result_buttons = _result()
    buttons = Buttons(**control_buttons, **result_buttons, retry=retry)
    outputs = Outputs(server=server, unavailable=unavailable, unavailable_message=unavailable_message, **results)
    return Layout(inputs, tabs, buttons, outputs)


def _controls(info: ServerInfo, default_guidance: OnOff) -> tuple[Inputs, Tabs, dict[str, Any]]:
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
    tabs, image_inputs = _tabs(info)
    settings, dice = _settings(info, default_guidance)
    inputs = Inputs(mode=mode, prompt=prompt, negative_prompt=negative, **image_inputs, **settings)
    return inputs, tabs, {"generate": generate, "stop": stop, "dice": dice}


def _tabs(info: ServerInfo) -> tuple[Tabs, dict[str, Any]]:
    fields: dict[str, Any] = {}
    with gr.Column(elem_id="painting") as generating, gr.Tabs(selected="text", elem_id="modes") as all_tabs:
        with gr.Tab("From text", id="text") as text:
            fields["text_size"] = _size(info, "text")
        with gr.Tab("From a picture", id="picture") as picture:
            fields["init_image"] = _upload("Picture to start from", "picture")
            fields["init_strength"] = _strength(info, "picture")
            fields["init_size"] = _size(info, "picture")
        with gr.Tab("Inpaint", id="inpaint") as inpaint:
            fields["editor"] = _editor()
            fields["inpaint_strength"] = _strength(info, "inpaint")
            fields["inpaint_size"] = _size(info, "inpaint")
    with gr.Column(visible=False, elem_id="editing") as editing:
        with gr.Row(elem_id="edited"):
            for number in (1, 2, 3):
                fields[f"edit_{number}"] = _upload(f"Picture {number}", f"edit-{number}")
        fields["edit_size"] = _size(info, "edit")
    return Tabs(generating, editing, all_tabs, text, picture, inpaint), fields


def _settings(info: ServerInfo, default_guidance: OnOff) -> tuple[dict[str, Any], gr.Button]:
    fields: dict[str, Any] = {}
    with gr.Row():
        fields["steps"] = _slider(1, info.limits.max_inference_steps, info.num_inference_steps, 1, "Steps", "steps")
        fields["count"] = _slider(1, info.max_images, 1, 1, "Pictures", "count")
    with gr.Group(elem_id="guidance"):
        fields["scale"] = _slider(
            *(0, info.limits.max_true_cfg_scale, info.true_cfg_scale, 0.1, "Guidance", "scale"),
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
    outputs = {"stage": stage, "status": status, "recipe": recipe, "gallery": gallery}
    return outputs, {"download": download, "reuse": reuse, "start_from": start_from}


def _size(info: ServerInfo, mode: str) -> gr.Dropdown:
    choices = size_choices(info, has_input_image=mode != "text")
    value = choices[0][1] if mode == "text" else LIKE_INPUT_IMAGE
    return gr.Dropdown(choices, value=value, label="Size", filterable=False, elem_id=f"{mode}-size")


def _strength(info: ServerInfo, mode: str) -> gr.Slider:
    help_text = "How far from the picture to go. At 1 hardly anything of it is left."
    return _slider(0.05, 1, info.strength, 0.05, "Strength", f"{mode}-strength", info=help_text)


def _upload(label: str, name: str) -> gr.Image:
    """Without `image_mode` gradio doesn't encode the file anew: the server gets the file itself."""
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
