"""Prompts to token ids: the family's template around them, the length checked, nothing cut off silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from qwen_image.errors import InvalidRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from qwen_image.checkpoint import Checkpoint
    from qwen_image.families import Family

PICTURE_WORDS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


@dataclass(frozen=True)
class PromptTokenizer:
    """Wraps prompts in the family's template."""

    tokenizer: PreTrainedTokenizerBase
    family: Family
    picture_words: Mapping[int, str]  # what marks a picture's place, by token id

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> PromptTokenizer:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(checkpoint.tokenizer_folder)
        known = tokenizer.get_added_vocab()
        return cls(tokenizer, checkpoint.family, {known[word]: word for word in PICTURE_WORDS if word in known})

    @cached_property
    def template_tokens(self) -> int:
        """Of the template before the prompt; their states are dropped later."""
        return len(self._tokens(self.family.prompt_template.partition("{}")[0]))

    @property
    def most_tokens(self) -> int:
        """Of any prompt that is not refused, one a picture."""
        edit = self.family.edit
        places = self._places("prompt", edit.max_images) if edit else ""
        return self.template_tokens + len(self._tokens(places)) + self.family.max_sequence_length

    def __call__(self, name: str, prompt: str, pictures: int = 0) -> list[int]:
        """Token ids of the whole template, one place a picture in front of the prompt.

        InvalidRequest if the prompt is longer than the transformer was trained with (diffusers cuts such a prompt off;
        here what the user sent is never lost without a word), or has words in it that stand for pictures.
        """
        places = self._places(name, pictures)
        token_ids = self._tokens(self.family.prompt_template.format(places + prompt))
        own = self._tokens(places)  # apart from the text around them: a special token ends each
        self._check_words(name, token_ids, own)
        kept = len(token_ids) - self.template_tokens - len(own)
        if kept > self.family.max_sequence_length:
            raise InvalidRequest(
                f"{name} has {kept} tokens with the template's end; "
                f"at most {self.family.max_sequence_length} are allowed: shorten it"
            )
        return token_ids

    def _places(self, name: str, pictures: int) -> str:
        edit = self.family.edit
        most = edit.max_images if edit else 0
        if pictures > most:
            raise InvalidRequest(
                f"{name} comes with {pictures} pictures; at most {most} are allowed ({self.family.pipeline_class})"
            )
        return "".join(edit.picture_prompt.format(number) for number in range(1, pictures + 1)) if edit else ""

    def _check_words(self, name: str, token_ids: Sequence[int], own: Sequence[int]) -> None:
        """A place that no picture fills, or one the prompt puts elsewhere, would be another picture than was meant."""
        found, expected = Counter(token_ids), Counter(own)
        forged = [word for token, word in self.picture_words.items() if found[token] != expected[token]]
        if forged:
            raise InvalidRequest(
                f"{name} contains {', '.join(forged)}, which stand for pictures and are not allowed in text: "
                "leave them out"
            )

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])
