"""What an image was made from: enough, with its input images, to make it again on the same server.

Made alone it is the same bit for bit; together with other images it may differ by rounding, as all batched work does.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, cast

from qwen_image_client._errors import InvalidRequest, RecipeError
from qwen_image_client._options import RowOptions
from qwen_image_client._tensors import USED
from qwen_image_client._wire_types import Picture, converter_of, int32, text
from qwen_image_contract import ROW_INPUTS, TASKS, Task

_VERSION = 1
_VALUES = [each for each in ROW_INPUTS if not each.is_image]
AS_SENT = [each for each in _VALUES if each.name not in USED]
# Written even where they are None. Later fields are left out then, for older clients, which don't know them.
_WRITTEN_AS_NULL = {"negative_prompt", "sigmas", "requested_num_inference_steps", "strength", "mask_sha256"}


class RecipeArguments(RowOptions):
    """The arguments of `Client.generate` that a recipe stands for; what it left out is None."""

    prompt: str
    seed: int
    image: Picture | None
    strength: float | None
    mask_image: Picture | None


class EditArguments(RowOptions):
    """The arguments of `Client.edit` that a recipe stands for; what it left out is None."""

    prompt: str
    images: Picture | Sequence[Picture]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One image's recipe: what was requested, and what the server really used.

    Attributes:
        prompt, negative_prompt, cfg_start, cfg_end, sigmas, strength: as sent; None was left out.
        seed, num_inference_steps, true_cfg_scale, width, height: as the server answered; scale 1 is no guidance.
        requested_num_inference_steps: as sent; an image that started from another made only a part of them.
        image_sha256: of the files of its input images, in order; the images aren't in the recipe.
        mask_sha256: of the mask's file; None: there was none.
        task: the method that made it.
        model: the Triton model that made it.
        request_id: the first half of its request's id; who knows the whole can cancel the request.
    """

    prompt: str
    negative_prompt: str | None
    seed: int
    num_inference_steps: int
    true_cfg_scale: float
    width: int
    height: int
    sigmas: tuple[float, ...] | None
    cfg_start: float | None = None
    cfg_end: float | None = None
    requested_num_inference_steps: int | None = None
    strength: float | None = None
    image_sha256: tuple[str, ...] = ()
    mask_sha256: str | None = None
    task: Task = "generate"
    model: str
    request_id: str

    def as_arguments(self, *, image: Picture | None = None, mask_image: Picture | None = None) -> RecipeArguments:
        """The arguments that make this image again: `client.generate(**recipe.as_arguments())`.

        Args:
            image, mask_image: what it was made from, or what to take in their place.

        Raises:
            RecipeError: it was made from an image or with a mask that isn't given, or it is an edit.
        """
        if self.task != "generate":
            raise RecipeError(f"the recipe is of `{self.task}`: use as_edit_arguments(images)")
        for name, digests, given in (
            ("image", self.image_sha256, image),
            ("mask_image", self.mask_sha256, mask_image),
        ):
            if digests and given is None:
                raise RecipeError(f"the recipe needs its {name}, which it knows by SHA-256 alone: {digests}")
        return cast(RecipeArguments, {**self._options(), "image": image, "mask_image": mask_image})

    def as_edit_arguments(self, images: Picture | Sequence[Picture]) -> EditArguments:
        """The arguments that make this edit again: `client.edit(**recipe.as_edit_arguments(images))`.

        Raises:
            RecipeError: it is no edit.
        """
        if self.task != "edit":
            raise RecipeError(f"the recipe is of `{self.task}`: use as_arguments()")
        return cast(EditArguments, {**self._options(), "images": images})

    def _options(self) -> Mapping[str, Any]:
        """What isn't an image."""
        return {
            **{each.name: getattr(self, each.name) for each in _VALUES if self.task in each.tasks},
            "num_inference_steps": self._steps(),
            # Without a negative prompt no scale was in force: one added later takes the server's default.
            "true_cfg_scale": None if self.negative_prompt is None else self.true_cfg_scale,
        }

    def _steps(self) -> int | None:
        """The number to request to get as many steps again."""
        if self.sigmas is not None:
            return None  # they are one a step, so they say how many there are
        starts_from_image = self.task == "generate" and bool(self.image_sha256)
        return self.requested_num_inference_steps if starts_from_image else self.num_inference_steps

    def as_text(self) -> str:
        """The recipe for people, in the layout that image viewers know as "parameters"."""
        facts = {
            "Steps": self.num_inference_steps,
            "Seed": self.seed,
            "Size": f"{self.width}x{self.height}",
            "CFG scale": self.true_cfg_scale,
            **{each.recipe_text: _show(getattr(self, each.name)) for each in AS_SENT if each.recipe_text},
            "Picture SHA-256": " ".join(self.image_sha256) or None,
            "Mask SHA-256": self.mask_sha256,
            "Model": self.model,
        }
        negative = [] if self.negative_prompt is None else [f"Negative prompt: {self.negative_prompt}"]
        known = ", ".join(f"{name}: {value}" for name, value in facts.items() if value is not None)
        return "\n".join([self.prompt, *negative, known])

    def as_json(self) -> str:
        known = {name: value for name, value in asdict(self).items() if value is not None or name in _WRITTEN_AS_NULL}
        return json.dumps({"version": _VERSION, **known}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Reads what `as_json` wrote.

        Raises:
            RecipeError: it isn't a recipe, misses a field, has one with a value that this client doesn't know, or a
                value of the wrong type.
        """
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        return cls(**_parse(text, needed))


def _show(value: float | tuple[float, ...] | None) -> str | None:
    """For people; None stays None."""
    if value is None:
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidRequest(f"{name}={value!r} must be a list of texts")
    return tuple(text(name, item) for item in value)


def _task(name: str, value: object) -> str:
    if value not in TASKS:
        raise InvalidRequest(f"{name}={value!r} must be one of {', '.join(TASKS)}")
    return str(value)


_CONVERTERS: Mapping[str, Callable[[str, object], object]] = {
    **{each.name: converter_of(each) for each in _VALUES},
    "requested_num_inference_steps": int32,
    "image_sha256": _texts,
    "mask_sha256": text,
    "task": _task,
    "model": text,
    "request_id": text,
}
_NULLABLE = {each.name for each in AS_SENT if not each.required} | {"requested_num_inference_steps", "mask_sha256"}


def _parse(json_text: str, needed: Collection[str]) -> dict[str, Any]:
    """The recipe's fields by name; those that aren't `needed` may be missing: earlier versions didn't write them.

    Raises:
        RecipeError: see `Recipe.from_json`.
    """
    record = _load(json_text)
    missing = sorted(set(needed) - record.keys())
    unknown = sorted(name for name in record.keys() - _CONVERTERS.keys() if record[name] is not None)
    if missing or unknown:
        raise RecipeError(f"the recipe's fields don't match: missing {missing}, unknown {unknown}")
    try:
        return {name: _convert(name, value) for name, value in record.items() if name in _CONVERTERS}
    except InvalidRequest as error:
        raise RecipeError(f"the recipe can't be used: {error}") from error


def _load(json_text: str) -> dict[str, Any]:
    try:
        record = json.loads(json_text)
    except ValueError as error:
        raise RecipeError(f"the recipe is no JSON: {error}") from error
    if not isinstance(record, dict) or record.pop("version", None) != _VERSION:
        raise RecipeError(f"the recipe isn't of version {_VERSION}, the one this client reads")
    return record


def _convert(name: str, value: object) -> object:
    return None if value is None and name in _NULLABLE else _CONVERTERS[name](name, value)
