"""The parts of the configurations that follow from the contract: the values of their placeholders."""

from __future__ import annotations

from collections.abc import Iterable

from qwen_image_contract import ENSEMBLES, INPUTS, Ensemble, Input, Output, Travel, inputs_of, outputs_of
from qwen_image_contract.models import TASKS

SAMPLERS = {"sampler": False, "sampler_stream": True}  # whether it streams
_TYPES = {"BYTES": "TYPE_STRING"}


def contract_values(model: str) -> dict[str, str]:
    """By placeholder, for one model's config.pbtxt; empty for a model that has no part in the public contract."""
    ensembles = {each.name: each for each in ENSEMBLES}
    if model in ensembles:
        return _of_ensemble(ensembles[model])
    if model == "validator":
        validated = (_tensor(f"validated_{each.name}", each.datatype, each.elements) for each in _validated(INPUTS))
        return {"inputs": _joined(map(_public, INPUTS)), "validated": _joined(validated)}
    if model in SAMPLERS:
        return {"inputs": _joined(_of_sampler(each) for each in _sampled(INPUTS, is_stream=SAMPLERS[model]))}
    return {}


def _of_ensemble(ensemble: Ensemble) -> dict[str, str]:
    inputs = inputs_of(ensemble)
    sampled = _sampled(inputs, is_stream=ensemble.is_stream)
    sent = {each.name: f"validated_{each.name}" if each.travel is Travel.VALIDATED else each.name for each in sampled}
    return {
        "inputs": _joined(_public(each, ensemble) for each in inputs),
        "outputs": _joined(map(_output, outputs_of(ensemble))),
        "validator_inputs": _maps("input", {each.name: each.name for each in inputs}),
        "validated": _maps(
            "output", {f"validated_{each.name}": f"validated_{each.name}" for each in _validated(inputs)}
        ),
        "sampler_inputs": _maps("input", sent),
    }


def _validated(inputs: Iterable[Input]) -> list[Input]:
    return [each for each in inputs if each.travel is Travel.VALIDATED]


def _sampled(inputs: Iterable[Input], *, is_stream: bool) -> list[Input]:
    return [each for each in inputs if each.travel is not Travel.NOT and (is_stream or not each.only_streams)]


def _public(each: Input, ensemble: Ensemble | None = None) -> str:
    """None: the validator, which serves all tasks."""
    tasks = TASKS if ensemble is None else (ensemble.task,)
    return _tensor(each.name, each.datatype, each.elements, optional=not set(tasks) <= set(each.required))


def _of_sampler(each: Input) -> str:
    return _tensor(each.name, each.datatype, each.elements, optional=each.travel is Travel.AS_SENT)


def _output(each: Output) -> str:
    dims = (f"${{{size}}}" if isinstance(size, str) else size for size in each.dims)
    return _tensor(each.name, each.datatype, *dims)


def _tensor(name: str, datatype: str, *dims: int | str, optional: bool = False) -> str:
    end = " optional: true" if optional else ""
    kind = _TYPES.get(datatype, f"TYPE_{datatype}")
    return f'{{ name: "{name}" data_type: {kind} dims: [ {", ".join(map(str, dims))} ]{end} }}'


def _joined(tensors: Iterable[str]) -> str:
    return ",\n  ".join(tensors)


def _maps(kind: str, names: dict[str, str]) -> str:
    return "\n      ".join(f'{kind}_map {{ key: "{key}" value: "{value}" }}' for key, value in names.items())
