"""What the page knows of its server: task, defaults and limits, fetched from the server itself.

The defaults are those that the model `validator` fills in: every request passes it, and it computes nothing.
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

from qwen_image.request.params import GenerationParams
from qwen_image_client.integration import Address
from qwen_image_contract import Limits, default_of

FETCH_TIMEOUT_S = 5.0
_VALIDATOR = "validator"
_DEFAULTS = ("validated_width", "validated_height", "validated_num_inference_steps", "validated_true_cfg_scale")
_NUMS_OF_IMAGES = (3, 1)  # that edit checkpoints take


class ServerUnavailable(Exception):  # noqa: N818 - it says what happened
    """No server responds, or it isn't ready."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The task, defaults and limits of one server.

    Attributes:
        edits: whether the checkpoint edits images; else it generates from text and from an init image.
        width, height: of an image whose request names no size, in pixels.
        max_images: images of one request.
        max_input_images: input images of one edit.
    """

    edits: bool
    width: int
    height: int
    num_inference_steps: int
    true_cfg_scale: float
    max_images: int
    max_input_images: int
    limits: Limits
    strength: float = default_of("strength")


def default_server_info() -> ServerInfo:
    """The product's own defaults, shown until the server has responded."""
    params = GenerationParams(prompt="")
    return ServerInfo(
        edits=False,
        width=params.width,
        height=params.height,
        num_inference_steps=params.num_inference_steps,
        true_cfg_scale=params.true_cfg_scale,
        max_images=2,  # a slider needs a range
        max_input_images=0,
        limits=Limits(),
    )


async def fetch_server_info(address: Address) -> ServerInfo:
    """Fetches what the server at a gRPC address says of itself.

    Raises:
        ServerUnavailable: it doesn't respond, or isn't ready.
    """
    client = InferenceServerClient(address.host_and_port, ssl=address.is_secure)
    try:
        edits = await client.is_model_ready("qwen_image_edit", client_timeout=FETCH_TIMEOUT_S)
        config = await client.get_model_config(_VALIDATOR, as_json=True, client_timeout=FETCH_TIMEOUT_S)
        nums_of_images = _NUMS_OF_IMAGES if edits else (0,)
        max_input_images, (width, height, steps, scale) = await _fetch_defaults(client, nums_of_images)
    except (InferenceServerException, grpc.RpcError) as error:
        raise ServerUnavailable(f"no server is ready at {address.host_and_port}") from error
    finally:
        await client.close()
    return ServerInfo(
        edits=edits,
        width=int(width),
        height=int(height),
        num_inference_steps=int(steps),
        true_cfg_scale=float(str(scale)),
        max_images=int(config["config"]["max_batch_size"]),
        max_input_images=max_input_images,
        limits=_parse_limits(config["config"]["parameters"]),
    )


async def _fetch_defaults(client: Any, nums_of_images: Sequence[int]) -> tuple[int, list[Any]]:
    """The first of the numbers of input images that the server accepts, and the defaults it fills in then."""
    for number in nums_of_images:
        try:
            answer = await client.infer(
                _VALIDATOR,
                _make_inputs(number),
                outputs=[InferRequestedOutput(name) for name in _DEFAULTS],
                client_timeout=FETCH_TIMEOUT_S,
            )
        except InferenceServerException as error:
            if number == nums_of_images[-1] or "INVALID_ARGUMENT" not in str(error.status()):
                raise
        else:
            return number, [answer.as_numpy(name)[0, 0] for name in _DEFAULTS]
    raise AssertionError("unreachable: the last number returns or raises")


def _make_inputs(num_images: int) -> list[Any]:
    inputs = [_bytes_input("prompt", [b"what are the defaults?"])]
    return [*inputs, _bytes_input("input_image", [_grey_png()] * num_images)] if num_images else inputs


def _bytes_input(name: str, values: Sequence[bytes]) -> Any:
    tensor = InferInput(name, [1, len(values)], "BYTES")
    tensor.set_data_from_numpy(np.array([values], np.object_))
    return tensor


def _grey_png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "grey").save(file, "PNG")
    return file.getvalue()


def _parse_limits(parameters: Mapping[str, Any]) -> Limits:
    return Limits(**{each.name: _parse_number(each.default, parameters[each.name]) for each in fields(Limits)})


def _parse_number(like: Any, parameter: Mapping[str, str]) -> Any:
    return type(like)(parameter["string_value"])
