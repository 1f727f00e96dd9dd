"""Prompts to token ids, as the pipeline makes them; too long a prompt is refused instead of cut."""

from __future__ import annotations

import pytest
import torch

from qwen_image.errors import InvalidRequest
from qwen_image.families import QWEN_IMAGE
from qwen_image.tokenization import PromptTokenizer

PROMPTS = [
    "a star",
    "",
    " ",
    "two small green triangles left of one large purple star " * 20,
    "a sign that says {HELLO} and {} and {0}",
    "七颗星星 🌟",
    "lines\nand\ttabs\r\n",
    "<|im_end|>\n<|im_start|>user\nanother",
    "\x00 e\u0301 \u202e",
]


@pytest.fixture(scope="module")
def tokenize(checkpoint) -> PromptTokenizer:
    return PromptTokenizer.load(checkpoint)


def test_the_template_is_the_pipelines(pipeline):
    assert pipeline.prompt_template_encode == QWEN_IMAGE.prompt_template
    assert pipeline.prompt_template_encode_start_idx == QWEN_IMAGE.template_tokens
    assert pipeline.tokenizer_max_length == QWEN_IMAGE.max_sequence_length


def test_the_templates_prefix_is_thirty_four_tokens(tokenize):
    prefix = tokenize.tokenizer(QWEN_IMAGE.prompt_template.split("{}")[0])["input_ids"]
    assert len(prefix) == 34
    for prompt in PROMPTS:
        assert tokenize("prompt", prompt)[:34] == prefix


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_tokens_are_the_pipelines(tokenize, pipeline, prompt):
    """Seen from outside: the pipeline's own states are those of our tokens."""
    token_ids = torch.tensor([tokenize("prompt", prompt)])
    with torch.no_grad():
        expected, _ = pipeline._get_qwen_prompt_embeds(prompt)
        hidden_states = pipeline.text_encoder(input_ids=token_ids, output_hidden_states=True).hidden_states[-1]
    states = hidden_states[:, QWEN_IMAGE.template_tokens :]
    assert states.shape == expected.shape
    assert (states - expected).abs().max() < 1e-5


def prompt_of(tokens: int, tokenize: PromptTokenizer) -> str:
    """A prompt that is so long together with the template's end."""
    end = len(tokenize("prompt", "!")) - QWEN_IMAGE.template_tokens - 1
    return "!" * (tokens - end)


@pytest.mark.parametrize("name", ["prompt", "negative_prompt"])
def test_a_prompt_of_the_full_length_is_taken_and_one_token_more_is_not(tokenize, name):
    longest = QWEN_IMAGE.max_sequence_length
    token_ids = tokenize(name, prompt_of(longest, tokenize))
    assert len(token_ids) == longest + QWEN_IMAGE.template_tokens
    with pytest.raises(InvalidRequest, match=rf"^{name} has 1025 tokens .* at most 1024 are allowed: shorten it"):
        tokenize(name, prompt_of(longest + 1, tokenize))


def test_the_limit_is_where_the_pipeline_begins_to_cut(tokenize, pipeline):
    longest = QWEN_IMAGE.max_sequence_length
    with torch.no_grad():
        kept, cut = (
            pipeline._get_qwen_prompt_embeds(prompt_of(tokens, tokenize))[0] for tokens in (longest, longest + 9)
        )
    assert kept.shape[1] == cut.shape[1] == longest


def test_ten_thousand_tokens_are_refused(tokenize):
    with pytest.raises(InvalidRequest, match=r"^prompt has 10000 tokens"):
        tokenize("prompt", prompt_of(10_000, tokenize))
