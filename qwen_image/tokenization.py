"""Prompts to token ids: the family's template around them, the length checked, nothing cut off silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_image.errors import InvalidRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from qwen_image.checkpoint import Checkpoint
    from qwen_image.families import Family


@dataclass(frozen=True, slots=True)
class PromptTokenizer:
    """Wraps prompts in the family's template. Text states of the first `template_tokens` tokens are dropped later."""

    tokenizer: PreTrainedTokenizerBase
    family: Family

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> PromptTokenizer:
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(checkpoint.folder / "tokenizer"), checkpoint.family)

    def __call__(self, name: str, prompt: str) -> list[int]:
        """Token ids of the whole template. InvalidRequest if longer than the transformer was trained with.

        diffusers cuts such a prompt off; here what the user sent is never lost without a word.
        """
        token_ids = list(self.tokenizer(self.family.prompt_template.format(prompt))["input_ids"])
        kept = len(token_ids) - self.family.template_tokens
        if kept > self.family.max_sequence_length:
            raise InvalidRequest(
                f"{name} has {kept} tokens with the template's end; "
                f"at most {self.family.max_sequence_length} are allowed: shorten it"
            )
        return token_ids
