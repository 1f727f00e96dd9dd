"""The public contract: every input and output of the ensembles, declared once.

The repository's configurations, the validator, the SDK, the command line, the gateway and the tables of
docs/contract.md are made from this package or compared with it. It needs nothing but Python.
"""

from qwen_image_contract.inputs import (
    INPUTS,
    LARGEST_INT32,
    LARGEST_SEED,
    ROW_INPUTS,
    Input,
    Travel,
    default_of,
    inputs_of,
)
from qwen_image_contract.limits import Limits
from qwen_image_contract.models import ENSEMBLES, TASKS, Ensemble, Task
from qwen_image_contract.outputs import OUTPUTS, Output, outputs_of

__all__ = [
    "ENSEMBLES",
    "INPUTS",
    "LARGEST_INT32",
    "LARGEST_SEED",
    "OUTPUTS",
    "ROW_INPUTS",
    "TASKS",
    "Ensemble",
    "Input",
    "Limits",
    "Output",
    "Task",
    "Travel",
    "default_of",
    "inputs_of",
    "outputs_of",
]
