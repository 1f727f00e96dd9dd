"""What one server is and allows, as the server itself says: its task, its defaults, its limits.

The defaults are those that the model `validator` fills in, which every request passes and which computes nothing.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
from PIL import Image
from tritonclient.grpc.aio import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from qwen_image_client.integration import Address
from qwen_image_contract import Limits, default_of

ANSWER_TIMEOUT_S = 5.0
_VALIDATOR = "validator"
_DEFAULTS = ("validated_width", "validated_height", "validated_num_inference_steps", "validated_true_cfg_scale")
_MOST_PICTURES = (3, 1)  # what edit checkpoints take


class ServerAway(Exception):  # noqa: N818 - it says what happened
    """No server answers, or one that isn't ready."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One server's.

    Attributes:
        edits: the checkpoint edits pictures; else it paints from text, and from a picture to start from.
        width, height: of a picture for which no size was asked, in pixels.
        max_images: pictures in one request.
        max_pictures: that one edit may look at.
    """

    edits: bool
    width: int
    height: int
    num_inference_steps: int
    true_cfg_scale: float
    max_images: int
    max_pictures: int
    limits: Limits
    strength: float = default_of("strength")


async def ask_server(address: Address) -> Facts:
    """Asks the server at a gRPC address.

    Raises:
        ServerAway: it does not answer, or isn't ready.
    """
    client = InferenceServerClient(address.host_and_port, ssl=address.is_secure)
    try:
        edits = await client.is_model_ready("qwen_image_edit", client_timeout=ANSWER_TIMEOUT_S)
        config = await client.get_model_config(_VALIDATOR, as_json=True, client_timeout=ANSWER_TIMEOUT_S)
        most, (width, height, steps, scale) = await _defaults(client, _MOST_PICTURES if edits else (0,))
    except (InferenceServerException, grpc.RpcError) as error:
        raise ServerAway(f"no server is ready at {address.host_and_port}") from error
    finally:
        await client.close()
    return Facts(
        edits=edits,
        width=int(width),
        height=int(height),
        num_inference_steps=int(steps),
        true_cfg_scale=float(str(scale)),
        max_images=int(config["config"]["max_batch_size"]),
        max_pictures=most,
        limits=_limits(config["config"]["parameters"]),
    )


async def _defaults(client: Any, num_pictures: Sequence[int]) -> tuple[int, list[Any]]:
    """The first of the numbers of pictures that the server takes, and what it fills in then."""
    for number in num_pictures:
        try:
            answer = await client.infer(
                _VALIDATOR,
                _inputs(number),
                outputs=[InferRequestedOutput(name) for name in _DEFAULTS],
                client_timeout=ANSWER_TIMEOUT_S,
            )
        except InferenceServerException as error:
            if number == num_pictures[-1] or "INVALID_ARGUMENT" not in str(error.status()):
                raise
        else:
            return number, [answer.as_numpy(name)[0, 0] for name in _DEFAULTS]
    raise AssertionError("unreachable: the last number returns or raises")


def _inputs(num_pictures: int) -> list[Any]:
    inputs = [_text_input("prompt", [b"what are the defaults?"])]
    return [*inputs, _text_input("input_image", [_square()] * num_pictures)] if num_pictures else inputs


def _text_input(name: str, values: Sequence[bytes]) -> Any:
    tensor = InferInput(name, [1, len(values)], "BYTES")
    tensor.set_data_from_numpy(np.array([values], np.object_))
    return tensor


def _square() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "grey").save(file, "PNG")
    return file.getvalue()


def _limits(parameters: Mapping[str, Any]) -> Limits:
    return Limits(**{each.name: _number(each.default, parameters[each.name]) for each in fields(Limits)})


def _number(like: Any, parameter: Mapping[str, str]) -> Any:
    return type(like)(parameter["string_value"])
