"""Tests with eyes: the demo checkpoint through a real tritonserver, judged by what the pictures show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from demo.checker import check
from demo.evaluate import GOALS, evaluate, exam, through_server
from demo.find_shapes import find_shapes
from demo.scenes import Scene, Thing
from qwen_image.launch.tritonserver import TritonServer
from qwen_image_client import Client
from tests.pictures import levels_apart

STEPS = {"num_inference_steps": 20}
GUIDED = {"negative_prompt": " ", "true_cfg_scale": 4.0}
ROWS = 8  # the most that a request may have

RED_ABOVE_BLUE = Scene("pair", (Thing("red", "circle"), Thing("blue", "square")), relation="above")
RING_BESIDE_TRIANGLE = Scene("pair", (Thing("teal", "ring"), Thing("orange", "triangle")), relation="left of")
THREE_IN_A_ROW = Scene(
    "trio", (Thing("blue", "circle"), Thing("red", "square"), Thing("green", "star")), relation="from left to right"
)
PURPLE_HEART = Scene("single", (Thing("purple", "heart"),))
DOZEN = [
    ("a red circle above a blue square on a yellow background", 0, RED_ABOVE_BLUE),
    ("a small teal ring to the left of a large orange triangle", 5, RING_BESIDE_TRIANGLE),
    ("a blue circle, a red square and a green star from left to right", 6, THREE_IN_A_ROW),
    ("a purple heart on a white background", 3, PURPLE_HEART),
    ("a white moon on a blue to black gradient background", 7, Scene("single", (Thing("white", "moon"),))),
    ("a pink star on a black background", 0, Scene("single", (Thing("pink", "star"),))),
    ("three green stars", 1, Scene("count", (Thing("green", "star"),) * 3)),
    ("six blue rings on a white background", 13, Scene("count", (Thing("blue", "ring"),) * 6)),
    ("a sign that says HELLO", 2, Scene("sign", word="HELLO", board="white")),
    ('a yellow sign that says "GOLD" on a green background', 8, Scene("sign", word="GOLD", board="yellow")),
    ("the word OPEN in white on a blue background", 0, Scene("word", word="OPEN", ink="white")),
    ("the number 42 in red", 4, Scene("word", word="42", ink="red")),
]


@pytest.fixture(scope="module")
def client(demo_server: TritonServer) -> Iterator[Client]:
    with Client(demo_server.grpc_url) as client:
        yield client


def paint(client: Client, prompts: Sequence[str], seeds: Sequence[int], **options: Any) -> list[Image.Image]:
    """One picture a prompt; requests of up to eight rows, two in flight."""
    parts = [slice(start, start + ROWS) for start in range(0, len(prompts), ROWS)]
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda part: client.generate(prompts[part], seed=seeds[part], **STEPS, **options), parts)
        return [made.image for answer in answers for made in answer]


def mistakes(asked: Sequence[tuple[str, int, Scene]], images: Sequence[Image.Image]) -> dict[str, str]:
    """What was seen instead, by prompt."""
    verdicts = {prompt: check(scene, image) for (prompt, _, scene), image in zip(asked, images, strict=True)}
    return {prompt: verdict.seen for prompt, verdict in verdicts.items() if not verdict.is_right}


def test_pictures_show_what_the_prompts_say(client: Client) -> None:
    prompts, seeds, _ = zip(*DOZEN, strict=True)
    wrong = mistakes(DOZEN, paint(client, prompts, seeds, **GUIDED))
    assert len(wrong) <= 1, wrong


def test_guidance_raises_adherence(client: Client) -> None:
    """Sixteen held-out prompts with two things or several equal ones, where the model needs its guidance most."""
    questions = [question for question in exam() if question.scene.kind in ("pair", "count")][::7][:16]

    def number_right(**options: Any) -> int:
        report = evaluate(lambda prompts, seeds: paint(client, prompts, seeds, **options), questions)
        return sum(verdict.is_right for verdict in report.verdicts)

    off, on = number_right(), number_right(**GUIDED)
    assert off < on
    assert on >= 13


def test_same_seed_same_picture_other_seed_another(client: Client) -> None:
    first, again, other = (
        client.generate("a purple heart on a white background", seed=seed, **STEPS, **GUIDED)[0].image
        for seed in (3, 3, 4)
    )
    assert levels_apart(first, again) <= 1
    assert np.abs(np.asarray(first, float) - np.asarray(other, float)).mean() > 2


def test_streamed_previews_converge_on_a_right_picture(client: Client) -> None:
    prompt, seed, scene = DOZEN[0]
    previews = list(client.stream(prompt, seed=seed, **STEPS, **GUIDED))
    images = [preview.images[0].image for preview in previews]
    assert [preview.step for preview in previews] == list(range(1, 21))

    last = np.asarray(images[-1], float)
    distances = [np.abs(np.asarray(image, float) - last).mean() for image in images]
    quarters = np.array(distances).reshape(4, 5).mean(axis=1)
    assert (quarters[1:] < quarters[:-1] / 2).all(), distances
    assert check(scene, images[-1]).is_right


def test_negative_prompt_removes_what_it_names(client: Client) -> None:
    def red_hearts(negative_prompt: str) -> int:
        images = paint(client, ["a heart"] * 16, range(16), negative_prompt=negative_prompt, true_cfg_scale=4.0)
        seen = [[(thing.colour, thing.shape) for thing in find_shapes(image)] for image in images]
        assert sum([shape for _, shape in things] == ["heart"] for things in seen) >= 14, seen
        return sum(("red", "heart") in things for things in seen)

    without, with_it = red_hearts(" "), red_hearts("a red heart")
    assert without >= 3
    assert with_it < without / 2


def test_another_aspect_ratio(client: Client) -> None:
    asked = DOZEN[:4]
    prompts, seeds, _ = zip(*asked, strict=True)
    images = paint(client, prompts, seeds, height=128, width=192, **GUIDED)
    assert {image.size for image in images} == {(192, 128)}
    assert not mistakes(asked, images)


def test_the_exam_goes_through_the_server(demo_server: TritonServer) -> None:
    report = evaluate(through_server(demo_server.grpc_url), exam()[::30])
    assert set(GOALS) < set(report.scores)
    assert report.scores["everything"] >= 0.7


def test_the_exam_needs_a_ready_server() -> None:
    with pytest.raises(SystemExit, match="no server is ready"):
        evaluate(through_server("localhost:1"), exam()[:1])
