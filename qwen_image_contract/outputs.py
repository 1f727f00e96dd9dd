"""Every public output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qwen_image_contract.models import TASKS, Ensemble, Task

Datatype = Literal["UINT8", "INT32", "INT64", "FP32"]  # Triton's names


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output.

    Attributes:
        datatype: Triton's.
        shape_text: of a row, and what it means; for the documentation.
        dims: of a row, as Triton has them; -1 is any length, a name a fact of the model family.
        tasks: whose ensembles have it.
        only_streams, only_unary: the other ensembles don't have it.
    """

    name: str
    datatype: Datatype
    shape_text: str
    dims: tuple[int | str, ...] = (1,)
    tasks: tuple[Task, ...] = TASKS
    only_streams: bool = False
    only_unary: bool = False


OUTPUTS = (
    Output(name="image", datatype="UINT8", dims=(-1, -1, 3), shape_text="[height, width, 3]"),
    Output(
        name="latents",
        datatype="FP32",
        dims=("latent_channels", 1, -1, -1),
        shape_text="[16, 1, height / 8, width / 8], normalised, as the VAE decoder reads them",
    ),
    Output(name="used_seed", datatype="INT64", shape_text="[1]"),
    Output(
        name="used_num_inference_steps",
        datatype="INT32",
        shape_text="[1]: steps that were made, fewer than asked for where the image started from another one",
    ),
    Output(name="used_true_cfg_scale", datatype="FP32", shape_text="[1]; 1.0: guidance was not in force"),
    Output(name="used_width", datatype="INT32", shape_text="[1]"),
    Output(name="used_height", datatype="INT32", shape_text="[1]"),
    Output(name="step", datatype="INT32", only_streams=True, shape_text="[1], streams only: steps done"),
    Output(
        name="mask",
        datatype="UINT8",
        dims=(-1, -1),
        tasks=("generate",),
        only_unary=True,
        shape_text="[height, width], `qwen_image` only: 255 where it painted, 0 where it kept; [1, 1] of 255 if no row "
        "had a mask",
    ),
)


def outputs_of(ensemble: Ensemble) -> tuple[Output, ...]:
    """In the table's order."""
    return tuple(
        each
        for each in OUTPUTS
        if ensemble.task in each.tasks and not (each.only_streams if not ensemble.is_stream else each.only_unary)
    )
