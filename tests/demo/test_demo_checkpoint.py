"""The checkpoint in the repository: whole, small enough, and able to paint."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from transformers import AutoTokenizer, Qwen2Tokenizer

from demo.checker import check
from demo.sampling import paint_prompts
from demo.scenes import Scene, Thing
from demo.tokenizer import EDIT_TEMPLATE, EDIT_TEMPLATE_TOKENS, TEMPLATE, TEMPLATE_TOKENS
from tests.pictures import levels_apart

CHECKPOINT = Path(__file__).parents[2] / "demo" / "checkpoint"


@pytest.fixture(scope="module")
def pipeline():
    diffusers = pytest.importorskip("diffusers")
    return diffusers.QwenImagePipeline.from_pretrained(CHECKPOINT, dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer() -> Qwen2Tokenizer:
    return AutoTokenizer.from_pretrained(CHECKPOINT / "tokenizer")


def test_checkpoint_is_24_megabytes_or_less() -> None:
    assert sum(path.stat().st_size for path in CHECKPOINT.rglob("*") if path.is_file()) <= 24_000_000


def test_weights_are_bf16() -> None:
    for path in CHECKPOINT.rglob("*.safetensors"):
        with safe_open(path, "pt") as weights:
            assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118


def test_index_names_the_default_size() -> None:
    assert json.loads((CHECKPOINT / "model_index.json").read_text())["_default_size"] == [128, 128]


@pytest.mark.parametrize(("template", "expected"), [(TEMPLATE, TEMPLATE_TOKENS), (EDIT_TEMPLATE, EDIT_TEMPLATE_TOKENS)])
def test_template_prefix_has_the_length_that_the_pipelines_drop(
    tokenizer: Qwen2Tokenizer, template: str, expected: int
) -> None:
    prefix = template.split("{}")[0].split("<|vision_start|>")[0]
    assert len(tokenizer(prefix).input_ids) == expected


def test_pipeline_uses_the_template_that_was_trained_on(pipeline) -> None:
    assert pipeline.prompt_template_encode == TEMPLATE
    assert pipeline.prompt_template_encode_start_idx == TEMPLATE_TOKENS


@pytest.mark.parametrize("text", ["a red circle", "Größe, 你好, 🙂\n\ttabs", "", " "])
def test_tokenizer_covers_any_text(tokenizer: Qwen2Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_capitals_are_spelled_letter_by_letter(tokenizer: Qwen2Tokenizer) -> None:
    assert tokenizer.tokenize(" HELLO")[1:] == list("HELLO")


def test_a_red_circle_above_a_blue_square_looks_like_one(pipeline) -> None:
    scene = Scene("pair", (Thing("red", "circle"), Thing("blue", "square")), relation="above")
    image = paint_prompts(pipeline, ["a red circle above a blue square on a yellow background"], [0])[0]
    assert check(scene, image).is_right


def test_same_seed_same_picture_other_seed_another(pipeline) -> None:
    def paint(seed: int) -> Image.Image:
        return paint_prompts(pipeline, ["a purple heart"], [seed], steps=6)[0]

    first, again, other = (np.asarray(paint(seed)) for seed in (3, 3, 4))
    assert levels_apart(first, again) <= 1
    assert levels_apart(first, other) > 1
