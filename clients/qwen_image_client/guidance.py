"""Guidance where a request says nothing of it: what the command line, the gateway and the page add to it.

The clients' own methods don't: there, as in diffusers, guidance is off without a negative prompt.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

OnOff: TypeAlias = Literal["on", "off"]
ON_OFF: tuple[OnOff, ...] = get_args(OnOff)
DEFAULT_GUIDANCE: OnOff = "on"  # as in Qwen-Image's own examples
BLANK = " "  # their negative prompt
NO_GUIDANCE = 1.0  # the largest scale without effect


def guidance_options(negative_prompt: str | None, true_cfg_scale: float | None, default: OnOff) -> Mapping[str, Any]:
    """A request's negative prompt and scale as options of `Client.generate`; what is left out is the server's default.

    A scale of 1 or less turns guidance off. A larger one or a negative prompt, even an empty one, turns it on.
    `default` decides where neither is given.
    """
    is_on = default == "on" if true_cfg_scale is None else true_cfg_scale > NO_GUIDANCE
    if negative_prompt is None and is_on:
        negative_prompt = BLANK
    options = {"negative_prompt": negative_prompt, "true_cfg_scale": true_cfg_scale}
    return {name: value for name, value in options.items() if value is not None}
