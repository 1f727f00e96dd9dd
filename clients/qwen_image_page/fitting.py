"""The form fitted to a server, or filled in from a recipe."""

from __future__ import annotations

from typing import Any

import gradio as gr

from qwen_image_client import Recipe
from qwen_image_page.facts import Facts
from qwen_image_page.layout import Layout, before_the_server
from qwen_image_page.sizes import LIKE_THE_PICTURE, Size, choices


def fitted(layout: Layout, facts: Facts, steps: float, scale: float) -> dict[Any, Any]:
    """The tabs, defaults and limits of a server; `steps` and `scale` stay if somebody has moved them already."""
    inputs, tabs, unmoved = layout.inputs, layout.tabs, before_the_server()
    if steps == unmoved.num_inference_steps:
        steps = facts.num_inference_steps
    if scale == unmoved.true_cfg_scale:
        scale = facts.true_cfg_scale
    return {
        tabs.painting: gr.update(visible=not facts.edits),
        tabs.editing: gr.update(visible=facts.edits),
        **({inputs.mode: "edit"} if facts.edits else {}),
        inputs.text_size: gr.update(
            choices=choices(facts, with_picture=False), value=str(Size(facts.width, facts.height))
        ),
        **{
            size: gr.update(choices=choices(facts, with_picture=True), value=LIKE_THE_PICTURE)
            for size in (inputs.picture_size, inputs.inpaint_size, inputs.edit_size)
        },
        inputs.edit_2: gr.update(visible=facts.max_pictures > 1),
        inputs.edit_3: gr.update(visible=facts.max_pictures > 2),
        inputs.steps: gr.update(maximum=facts.limits.max_inference_steps, value=steps),
        inputs.scale: gr.update(maximum=facts.limits.max_true_cfg_scale, value=scale),
        inputs.count: gr.update(maximum=max(facts.max_images, 2), visible=facts.max_images > 1),
    }


def refilled(layout: Layout, facts: Facts, recipe: Recipe) -> dict[Any, Any]:
    """What a picture was made with, but for the pictures that it was made from: the recipe doesn't hold them."""
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
        updates[inputs.inpaint_strength if recipe.mask_sha256 else inputs.picture_strength] = recipe.strength
    if not recipe.image_sha256:
        size = Size(recipe.width, recipe.height)
        updates[inputs.text_size] = gr.update(choices=choices(facts, with_picture=False, more=size), value=str(size))
    return updates
