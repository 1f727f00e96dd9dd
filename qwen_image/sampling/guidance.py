"""In which steps guidance is in force, as diffusers' guiders count them."""

from __future__ import annotations


def guided_steps(steps: int, cfg_start: float, cfg_end: float) -> range:
    """Of `steps` steps that are made, numbered from 0; `cfg_start` and `cfg_end` are parts of them, 0 to 1.

    The rule of diffusers.guiders.ClassifierFreeGuidance: from int(start x steps) to before int(stop x steps).
    """
    return range(int(cfg_start * steps), int(cfg_end * steps))
