"""The tokenizer: Qwen2's own splitting, with a vocabulary learned from our captions and the prompt templates."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import Qwen2Tokenizer

from demo.captions import caption
from demo.scenes import draw_scene

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
TEMPLATE_TOKENS = 34  # dropped by the pipeline
EDIT_TEMPLATE = (
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. Generate a new "
    "image that meets the user's requirements while maintaining consistency with the original input where "
    "appropriate.<|im_end|>\n<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
EDIT_TEMPLATE_TOKENS = 64
_CORPUS_CAPTIONS = 30_000
_ALPHABET = sorted(ByteLevel.alphabet())


def train_tokenizer() -> Qwen2Tokenizer:
    """A tokenizer that knows our captions' words whole, spells signs by letter and covers any UTF-8 text."""
    learner = Qwen2Tokenizer().backend_tokenizer
    learner.train_from_iterator(_corpus(), BpeTrainer(vocab_size=1200, initial_alphabet=_ALPHABET, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    merges: Any = [tuple(pair) for pair in learned["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=learned["vocab"], merges=merges, padding_side="right", model_max_length=32768)
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS[1:])})
    _check_template(tokenizer, TEMPLATE, TEMPLATE_TOKENS)
    _check_template(tokenizer, EDIT_TEMPLATE, EDIT_TEMPLATE_TOKENS)
    return tokenizer


def _corpus() -> Iterator[str]:
    """Captions with the signs' words left out, so that capitals never merge, and both templates' words."""
    for template in (TEMPLATE, EDIT_TEMPLATE):
        words = template
        for token in SPECIAL_TOKENS:
            words = words.replace(token, "")
        yield from [words] * 100
    rng = random.Random(0)
    for _ in range(_CORPUS_CAPTIONS):
        yield caption(rng, replace(draw_scene(rng), word=""))
        yield rng.choice((" number", " numbers", " digit", " letter", " letters"))


def _check_template(tokenizer: Qwen2Tokenizer, template: str, expected: int) -> None:
    prefix = template.split("{}")[0].split("<|vision_start|>")[0]
    counted = len(tokenizer(prefix).input_ids)
    if counted != expected:
        raise ValueError(f"the template's prefix has {counted} tokens; the pipeline drops {expected}")
