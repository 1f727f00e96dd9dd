"""Every public input. What is said here of one is what all faces of the product say of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from qwen_image_contract.models import TASKS, Ensemble, Task

Datatype = Literal["BYTES", "INT32", "INT64", "FP32"]  # Triton's names
LARGEST_SEED = 2**63 - 1
LARGEST_INT32 = 2**31 - 1
ANY_NUMBER = -1


class Travel(Enum):
    """How an input's value gets to the sampler."""

    VALIDATED = auto()  # as `validated_NAME`, with its default filled in
    AS_SENT = auto()
    NOT = auto()  # the validator or the text encoder makes something else of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input. A request may leave out what is not `required`, in all of its rows.

    Attributes:
        name: of the tensor and of the SDK's option, where an input image is `image` or `images`.
        datatype: Triton's.
        about: one line for people, of every face.
        elements: of a row; ANY_NUMBER is one dimension of any length.
        tasks: whose ensembles have it.
        required: by these tasks.
        only_streams: unary ensembles don't have it.
        same_in_all_rows: rows of one request share it.
        is_image: the files of images, an empty element for none.
        minimum, maximum: a number's range, both allowed; a name is that of a field of `Limits`.
        hint: the end of the error for a number out of its range.
        default: what the validator fills in; None: nothing, or what `default_text` says.
        default_text, range_text: for the documentation.
        travel: how it gets to the sampler.
        metavar: of the command line's option; None: the command line has an argument of its own for it.
        option_text: of the command line's option, where that says more or less than `about`.
        recipe_text: its name in a recipe that people read; empty: it isn't there, or in words of its own.
    """

    name: str
    datatype: Datatype
    about: str
    elements: int = 1
    tasks: tuple[Task, ...] = TASKS
    required: tuple[Task, ...] = ()
    only_streams: bool = False
    same_in_all_rows: bool = False
    is_image: bool = False
    minimum: float | None = None
    maximum: float | str | None = None
    hint: str = ""
    default: float | None = None
    default_text: str = ""
    range_text: str = ""
    travel: Travel = Travel.NOT
    metavar: str | None = None
    option_text: str | None = None
    recipe_text: str = ""

    @property
    def is_number(self) -> bool:
        """One number a row."""
        return self.datatype != "BYTES" and self.elements == 1


INPUTS = (
    Input(
        name="prompt",
        datatype="BYTES",
        about="what to paint, or what to change",
        required=TASKS,
        default_text="required",
        range_text="UTF-8, not blank, 1,024 tokens at most with the template's end",
    ),
    Input(
        name="negative_prompt",
        datatype="BYTES",
        about="what to steer away from",
        default_text="none: guidance is off",
        range_text="an empty one turns guidance on",
        metavar="TEXT",
    ),
    Input(
        name="height",
        datatype="INT32",
        about="in pixels",
        same_in_all_rows=True,
        default_text="the checkpoint's own (Qwen-Image: 1328), or the picture's shape, see below",
        range_text="multiples of 16 from 64 to 2048",
        travel=Travel.VALIDATED,
        metavar="PIXELS",
        option_text="",
    ),
    Input(
        name="width",
        datatype="INT32",
        about="in pixels",
        same_in_all_rows=True,
        default_text="the checkpoint's own (Qwen-Image: 1328), or the picture's shape, see below",
        range_text="multiples of 16 from 64 to 2048",
        travel=Travel.VALIDATED,
        metavar="PIXELS",
        option_text="",
    ),
    Input(
        name="num_inference_steps",
        datatype="INT32",
        about="denoising steps",
        minimum=1,
        maximum="max_inference_steps",
        default=50,
        range_text="1 to 200",
        travel=Travel.VALIDATED,
        metavar="N",
        option_text="",
    ),
    Input(
        name="true_cfg_scale",
        datatype="FP32",
        about="strength of the guidance; 1: none",
        minimum=0,
        maximum="max_true_cfg_scale",
        hint=" (1 or less turns guidance off)",
        default=4.0,
        range_text="0 to 50; in force with a negative prompt and above 1, else the negative prompt is checked and not "
        "encoded",
        travel=Travel.VALIDATED,
        metavar="X",
    ),
    Input(
        name="cfg_start",
        datatype="FP32",
        about="guidance begins after this part of the steps",
        minimum=0,
        maximum=1,
        default=0.0,
        range_text="0 to 1, a part of the steps that are made; guidance is off in those before it",
        travel=Travel.VALIDATED,
        metavar="X",
        recipe_text="CFG start",
    ),
    Input(
        name="cfg_end",
        datatype="FP32",
        about="guidance ends after this part of the steps",
        minimum=0,
        maximum=1,
        default=1.0,
        range_text="cfg_start to 1; guidance is off in the steps behind it",
        travel=Travel.VALIDATED,
        metavar="X",
        recipe_text="CFG end",
    ),
    Input(
        name="seed",
        datatype="INT64",
        about="of the noise",
        minimum=0,
        maximum=LARGEST_SEED,
        hint="; leave it out to have one drawn",
        default_text="drawn for every row",
        range_text="0 to 2⁶³ − 1",
        travel=Travel.VALIDATED,
        metavar="N",
        option_text="several images take N, N+1, ...",
    ),
    Input(
        name="sigmas",
        datatype="FP32",
        elements=ANY_NUMBER,
        about="noise levels, one a step",
        default_text="the scheduler's",
        range_text="falling, above 0, at most 1; they are shifted as the scheduler's own are",
        travel=Travel.AS_SENT,
        metavar="X,X,...",
        recipe_text="Sigmas",
    ),
    Input(
        name="input_image",
        datatype="BYTES",
        elements=ANY_NUMBER,
        is_image=True,
        about="the image to start from, or the images to edit",
        required=("edit",),
    ),
    Input(
        name="mask_image",
        datatype="BYTES",
        is_image=True,
        about="paint where it is white, keep where it is black",
        tasks=("generate",),
    ),
    Input(
        name="strength",
        datatype="FP32",
        about="how much of the image may change",
        tasks=("generate",),
        default=0.6,
        metavar="X",
        option_text="how much of it may change: above 0, at most 1",
        recipe_text="Strength",
    ),
    Input(
        name="preview_every",
        datatype="INT32",
        about="steps between two previews; 0: none",
        only_streams=True,
        same_in_all_rows=True,
        default=1,
        range_text="0 or more: the image is decoded after every so many steps and after the last; 0 decodes none",
        travel=Travel.AS_SENT,
    ),
    Input(
        name="num_previews",
        datatype="INT32",
        about="previews, evenly spaced, beside the last image",
        only_streams=True,
        same_in_all_rows=True,
        default_text="none: preview_every counts",
        range_text="0 or more, in place of preview_every: the image is decoded after so many steps, evenly spaced, and "
        "after the last",
        travel=Travel.AS_SENT,
    ),
)

ROW_INPUTS = tuple(each for each in INPUTS if not each.only_streams)  # what one image is made from


def default_of(name: str) -> float:
    """Of an input that has a default of its own."""
    (default,) = (each.default for each in INPUTS if each.name == name)
    assert default is not None, name
    return default


def inputs_of(ensemble: Ensemble) -> tuple[Input, ...]:
    """In the table's order."""
    return tuple(
        each for each in INPUTS if ensemble.task in each.tasks and (ensemble.is_stream or not each.only_streams)
    )
