"""What lower precision costs the demo's pictures and blocks. The floors are measured, with a margin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from demo.block_errors import apart, outputs_of_blocks
from demo.checker import check
from demo.evaluate import Question, Report, exam
from demo.precision import CHECKPOINT, beside, psnr
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.conditioning import Conditioning
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision
from qwen_image.dit.step import StepRow, advance
from qwen_image.dit.weights import CheckpointWeights
from qwen_image.sampling.latents import unpack_latents
from qwen_image.sampling.schedule import Schedule
from qwen_image.vae.vae import VaeDecoder

STEPS = 20
GRID = (8, 8)  # 128 x 128 pixels
QUESTIONS = exam()[::52]


@pytest.fixture(scope="module")
def conditioning() -> list[Conditioning]:
    """The text states of every question, by diffusers in float32."""
    diffusers = pytest.importorskip("diffusers")
    pipeline = diffusers.QwenImagePipeline.from_pretrained(CHECKPOINT, transformer=None, vae=None, dtype=torch.float32)
    with torch.inference_mode():
        negative = pipeline.encode_prompt(" ")[0][0]
        return [Conditioning(pipeline.encode_prompt(each.prompt)[0][0], negative) for each in QUESTIONS]


@pytest.fixture(scope="module")
def pictures(conditioning: list[Conditioning]) -> dict[Precision, list[Image.Image]]:
    return {precision: painted(precision, QUESTIONS, conditioning) for precision in Precision}


def painted(precision: Precision, questions: list[Question], conditioning: list[Conditioning]) -> list[Image.Image]:
    """By the server's transformer, steps and VAE, without a server."""
    checkpoint = open_checkpoint(CHECKPOINT)
    schedule = Schedule.from_config(checkpoint.config("scheduler"))
    sigmas = tuple(schedule.sigmas(num_inference_steps=STEPS, image_tokens=GRID[0] * GRID[1]).tolist())
    rows = [
        StepRow(None, question.seed, GRID, sigmas, of_question, 4.0)
        for question, of_question in zip(questions, conditioning, strict=True)
    ]
    engine, decoder = load_transformer(checkpoint, precision=precision), VaeDecoder(checkpoint)
    latents: dict[int, NDArray[np.float32]] = {}
    for positions, result in advance(rows, engine, 64):
        assert isinstance(result, torch.Tensor), result
        latents.update(zip(positions, result.numpy(), strict=True))
    unpacked = (unpack_latents(latents[position], 2 * GRID[0], 2 * GRID[1]) for position in range(len(rows)))
    return [Image.fromarray(decoder.decode(each[None])[0]) for each in unpacked]


def test_bfloat16_paints_what_float32_paints(pictures: dict[Precision, list[Image.Image]]) -> None:
    values = [psnr(*pair) for pair in zip(pictures[Precision.BF16], pictures[Precision.FP32], strict=True)]
    assert min(values) > 45  # 51.5 to 56.4 dB


def test_fp8_paints_nearly_what_bfloat16_paints(pictures: dict[Precision, list[Image.Image]]) -> None:
    values = [psnr(*pair) for pair in zip(pictures[Precision.FP8], pictures[Precision.BF16], strict=True)]
    assert min(values) > 24  # 28.2 to 38.9 dB
    assert max(values) < 45  # FP8 was in use


def test_most_pictures_in_fp8_show_what_was_asked(pictures: dict[Precision, list[Image.Image]]) -> None:
    right = [
        check(question.scene, image).is_right
        for question, image in zip(QUESTIONS, pictures[Precision.FP8], strict=True)
    ]
    assert sum(right) >= len(right) - 2


def test_fp8_keeps_every_trained_block_near_and_eight_in_sequence() -> None:
    weights = CheckpointWeights(open_checkpoint(CHECKPOINT))
    results = outputs_of_blocks(weights, weights.dimensions.num_layers, image_tokens=64, text_tokens=24)
    for each in results:
        assert apart(each.alone[Precision.BF16], each.alone[Precision.FP32]) < 2e-2  # 9e-3 at most
        assert 1e-2 < apart(each.alone[Precision.FP8], each.alone[Precision.BF16]) < 0.11  # 7.3e-2 at most
    last = results[-1].in_sequence
    assert apart(last[Precision.FP8], last[Precision.BF16], ("image",)) < 0.08  # 5.1e-2


def test_psnr_of_equal_pictures_is_infinite_and_of_opposites_is_zero() -> None:
    black, white = Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8), "white")
    assert psnr(black, black) == float("inf")
    assert psnr(black, white) == 0


def test_reports_are_compared_picture_by_picture() -> None:
    black, gray = Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8), (1, 1, 1))
    reports = [Report([], images, []) for images in ([black, black, gray], [black, gray, black])]
    median, worst = beside(*reports)
    assert median == worst == pytest.approx(48.13, abs=0.01)
