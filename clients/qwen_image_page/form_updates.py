"""Updates of the form: adapted to a server, or filled in from a recipe."""

from __future__ import annotations

from typing import Any

import gradio as gr

from qwen_image_client import Recipe
from qwen_image_page.layout import Layout
from qwen_image_page.server_info import ServerInfo, default_server_info
from qwen_image_page.sizes import LIKE_INPUT_IMAGE, Size, size_choices


def adapt_to_server(layout: Layout, info: ServerInfo, steps: float, scale: float) -> dict[Any, Any]:
    """The server's tabs, defaults and limits. `steps` and `scale` stay if the user has moved them already."""
    inputs, tabs, unmoved = layout.inputs, layout.tabs, default_server_info()
    if steps == unmoved.num_inference_steps:
        steps = info.num_inference_steps
    if scale == unmoved.true_cfg_scale:
        scale = info.true_cfg_scale
    return {
        tabs.generating: gr.update(visible=not info.edits),
        tabs.editing: gr.update(visible=info.edits),
        **({inputs.mode: "edit"} if info.edits else {}),
        inputs.text_size: gr.update(
            choices=size_choices(info, has_input_image=False), value=str(Size(info.width, info.height))
        ),
        **{
            size: gr.update(choices=size_choices(info, has_input_image=True), value=LIKE_INPUT_IMAGE)
            for size in (inputs.init_size, inputs.inpaint_size, inputs.edit_size)
        },
        inputs.edit_2: gr.update(visible=info.max_input_images > 1),
        inputs.edit_3: gr.update(visible=info.max_input_images > 2),
        inputs.steps: gr.update(maximum=info.limits.max_inference_steps, value=steps),
        inputs.scale: gr.update(maximum=info.limits.max_true_cfg_scale, value=scale),
        inputs.count: gr.update(maximum=max(info.max_images, 2), visible=info.max_images > 1),
    }


def fill_from_recipe(layout: Layout, info: ServerInfo, recipe: Recipe) -> dict[Any, Any]:
    """The recipe's settings. Input images stay as they are: the recipe doesn't hold them."""
    inputs, negative_prompt = layout.inputs, recipe.negative_prompt or ""
    updates: dict[Any, Any] = {
        inputs.prompt: recipe.prompt,
        inputs.negative_prompt: negative_prompt if negative_prompt.strip() else "",
        inputs.guide_anyway: recipe.negative_prompt is not None,
        inputs.steps: recipe.requested_num_inference_steps or recipe.num_inference_steps,
        inputs.seed: str(recipe.seed),
        inputs.count: 1,
    }
    if recipe.negative_prompt is not None:
        updates[inputs.scale] = recipe.true_cfg_scale
    if recipe.strength is not None:
        updates[inputs.inpaint_strength if recipe.mask_sha256 else inputs.init_strength] = recipe.strength
    if not recipe.image_sha256:
        size = Size(recipe.width, recipe.height)
        updates[inputs.text_size] = gr.update(
            choices=size_choices(info, has_input_image=False, extra=size), value=str(size)
        )
    return updates
