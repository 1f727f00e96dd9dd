"""Requests checked before they are streamed, by the models that a stream passes first.

Triton 2.51 may end with a segmentation fault when it refuses a stream. A call with one answer is refused safely, so
what a visitor typed wrong gets that far only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwen_image_client.address import Address
from qwen_image_client.call import Call, new_request_id
from qwen_image_client.request import expand_edits, expand_requests
from qwen_image_client.tensors import input_tensors
from qwen_image_client.transport import Connection, async_transport

_TIMEOUT_S = 60.0
_PROMPTS = ("prompt", "negative_prompt")


class Checker:
    """A connection to one server, on one event loop."""

    def __init__(self, url: str) -> None:
        self._transport = async_transport(Connection(Address.parse(url, "grpc")))

    async def close(self) -> None:
        await self._transport.close()

    async def check(self, arguments: Mapping[str, Any], *, edits: bool) -> None:
        """Returns if the server would take what `stream`, or `stream_edit`, is to be given.

        Raises:
            QwenImageClientError: as `stream` would.
            OSError: a picture's file can't be read.
        """
        tensors = input_tensors(expand_edits(**arguments) if edits else expand_requests(**arguments))
        await self._ask("validator", tensors, "validated_seed")
        if not edits:  # with pictures the encoder wants them as the validator prepared them: too much to fetch for this
            prompts = {name: tensors[name][:1] for name in _PROMPTS if name in tensors}
            await self._ask("text_encoder", prompts, "prompt_embeds_mask")  # which keeps its answer for the stream

    async def _ask(self, model: str, inputs: Mapping[str, Any], output: str) -> None:
        await self._transport.infer(Call(model, inputs, (output,), new_request_id()), _TIMEOUT_S)
