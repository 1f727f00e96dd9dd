"""Instructions as the edit pipeline tokenises them: template, pictures, words; and every token's position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import Qwen2Tokenizer

from demo.tokenizer import EDIT_TEMPLATE, EDIT_TEMPLATE_TOKENS

PICTURE_GRID = 5  # tokens a side of a square picture: 128 pixels become 140, a token covers 28
PICTURE_TOKENS = PICTURE_GRID**2
# Tokens after the dropped prefix, by number of pictures; with the image tokens they are multiples of 8.
TEXT_TOKENS = {1: 56, 2: 96}

_VISION = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
_BEFORE, _AFTER = EDIT_TEMPLATE.replace("".join(_VISION), "").split("{}")


def _pictures(references: int) -> str:
    start, pad, end = _VISION
    return "".join(f"Picture {i + 1}: {start}{pad * PICTURE_TOKENS}{end}" for i in range(references))


def picture_columns(tokenizer: Qwen2Tokenizer, references: int) -> list[int]:
    """Where in every prompt of so many pictures their tokens stand."""
    pad = tokenizer.convert_tokens_to_ids(_VISION[1])
    ids = tokenizer(_BEFORE + _pictures(references)).input_ids
    return [column for column, token in enumerate(ids) if token == pad]


def tokenize_instructions(
    tokenizer: Qwen2Tokenizer, prompts: Sequence[str], references: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded ids, and their lengths after the dropped prefix."""
    # Words stand between special tokens, so that they are tokenised alike alone and in the template.
    before, after = tokenizer(_BEFORE + _pictures(references)).input_ids, tokenizer(_AFTER).input_ids
    longest = EDIT_TEMPLATE_TOKENS + TEXT_TOKENS[references]
    ids = torch.full((len(prompts), longest), tokenizer.pad_token_id, dtype=torch.int16)
    lengths = torch.empty(len(prompts), dtype=torch.int16)
    for row, words in enumerate(tokenizer(list(prompts)).input_ids):
        tokens = [*before, *words, *after]
        if len(tokens) > longest:
            raise ValueError(f"{prompts[row]!r} has {len(tokens) - longest} tokens too many to train on")
        ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int16)
        lengths[row] = len(tokens) - EDIT_TEMPLATE_TOKENS
    return ids, lengths


def token_positions(columns: Sequence[int], length: int) -> torch.Tensor:
    """(3, length): time, row and column of every token; a picture's tokens have places in a grid, as in Qwen2.5-VL."""
    positions: list[tuple[int, int, int]] = []
    following = 0
    pictures = set(columns)
    while len(positions) < length:
        if len(positions) not in pictures:
            positions.append((following,) * 3)
            following += 1
            continue
        grid = range(PICTURE_GRID)
        positions += [(following, following + row, following + column) for row in grid for column in grid]
        following += PICTURE_GRID
    return torch.tensor(positions).T
