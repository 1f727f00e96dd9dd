"""Text states that the transformer's side keeps, so that they travel once an image instead of once a step."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch

from qwen_image.errors import NotHeld


@dataclass(frozen=True, slots=True)
class Prompt:
    """One image's text states, on the engine's device and in its dtype. No negative tokens: no guidance."""

    embeds: torch.Tensor  # (T, dim)
    negative_embeds: torch.Tensor  # (T', dim)

    @property
    def num_bytes(self) -> int:
        return sum(each.numel() * each.element_size() for each in (self.embeds, self.negative_embeds))


class PromptStore:
    """The prompts used last, up to a number of bytes. Losing one costs its sender one more call."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._prompts: OrderedDict[str, Prompt] = OrderedDict()
        self._bytes = 0

    def put(self, prompt_id: str, prompt: Prompt) -> None:
        """Keep it, and let the ones go that were used longest ago; the newest always stays."""
        self._drop(prompt_id)
        self._prompts[prompt_id] = prompt
        self._bytes += prompt.num_bytes
        while self._bytes > self._max_bytes and len(self._prompts) > 1:
            self._drop(next(iter(self._prompts)))

    def get(self, prompt_id: str) -> Prompt:
        """NotHeld if it was never put or had to go."""
        try:
            self._prompts.move_to_end(prompt_id)
        except KeyError:
            raise NotHeld(
                f"the text states of prompt_id={prompt_id!r} are not held here: send them with the call"
            ) from None
        return self._prompts[prompt_id]

    def _drop(self, prompt_id: str) -> None:
        if prompt_id in self._prompts:
            self._bytes -= self._prompts.pop(prompt_id).num_bytes
