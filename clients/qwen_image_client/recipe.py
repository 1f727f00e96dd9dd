"""What an image was made from: enough to make it again on the same server.

Made alone it is the same bit for bit; beside other images it may differ by rounding, as all batched work does.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from qwen_image_client.errors import InvalidRequest, RecipeError
from qwen_image_client.request import GenerationRequest, RowOptions

_VERSION = 1
_ANSWERED = ("seed", "num_inference_steps", "true_cfg_scale", "width", "height")


class RecipeArguments(RowOptions):
    """The arguments of `Client.generate` that a recipe stands for; what it left out is None."""

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One image's recipe: what was asked for, and what the server said it really used.

    Attributes:
        prompt, negative_prompt, sigmas: as sent; None was left out.
        seed, num_inference_steps, true_cfg_scale, width, height: as the server answered; scale 1 is no guidance.
        model: the Triton model that made it.
        request_id: the request it came from.
    """

    prompt: str
    negative_prompt: str | None
    seed: int
    num_inference_steps: int
    true_cfg_scale: float
    width: int
    height: int
    sigmas: tuple[float, ...] | None
    model: str
    request_id: str

    def as_arguments(self) -> RecipeArguments:
        """The arguments that make this image again: `client.generate(**recipe.as_arguments())`."""
        return {
            "prompt": self.prompt,
            "negative_prompt": self.negative_prompt,
            "seed": self.seed,
            # Given sigmas are one a step, so they say how many there are.
            "num_inference_steps": self.num_inference_steps if self.sigmas is None else None,
            # Without a negative prompt no scale was in force: one added later takes the server's default.
            "true_cfg_scale": None if self.negative_prompt is None else self.true_cfg_scale,
            "width": self.width,
            "height": self.height,
            "sigmas": self.sigmas,
        }

    def as_text(self) -> str:
        """The recipe for people, in the layout that image viewers know as "parameters"."""
        facts = {
            "Steps": self.num_inference_steps,
            "Seed": self.seed,
            "Size": f"{self.width}x{self.height}",
            "CFG scale": None if self.negative_prompt is None else self.true_cfg_scale,
            "Sigmas": None if self.sigmas is None else " ".join(map(str, self.sigmas)),
            "Model": self.model,
        }
        negative = [] if self.negative_prompt is None else [f"Negative prompt: {self.negative_prompt}"]
        known = ", ".join(f"{name}: {value}" for name, value in facts.items() if value is not None)
        return "\n".join([self.prompt, *negative, known])

    def as_json(self) -> str:
        return json.dumps({"version": _VERSION, **asdict(self)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Reads what `as_json` wrote.

        Raises:
            RecipeError: it isn't a recipe, misses a field, has one too many, or a value of the wrong type.
        """
        record = _record(text)
        names = {field.name for field in fields(cls)}
        if record.keys() != names:
            missing, unknown = sorted(names - record.keys()), sorted(record.keys() - names)
            raise RecipeError(f"the recipe's fields don't match: missing {missing}, unknown {unknown}")
        if record["sigmas"] is not None:
            record["sigmas"] = tuple(record["sigmas"])
        _check_types(record)
        return cls(**record)


def _record(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise RecipeError(f"the recipe is no JSON: {error}") from error
    if not isinstance(record, dict) or record.pop("version", None) != _VERSION:
        raise RecipeError(f"the recipe isn't of version {_VERSION}, the one this client reads")
    return record


def _check_types(record: Mapping[str, Any]) -> None:
    """A recipe must be a request that can be sent, with everything in it that the server answers."""
    row = {field.name: record[field.name] for field in fields(GenerationRequest)}
    missing = [name for name in _ANSWERED if record[name] is None]
    try:
        GenerationRequest(**row)
    except InvalidRequest as error:
        raise RecipeError(f"the recipe can't be used: {error}") from error
    if missing or not isinstance(record["model"], str) or not isinstance(record["request_id"], str):
        raise RecipeError(f"the recipe can't be used: {', '.join(missing) or 'model or request_id'} is missing")
