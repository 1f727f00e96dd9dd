"""Measure prompt adherence on held-out scenes, through a running server or through diffusers."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from demo.captions import caption
from demo.checker import Verdict, check
from demo.scenes import Scene, draw_scene
from demo.sheet import contact_sheet

# How many held-out scenes of each kind are asked for.
EXAM = {"single": 60, "pair": 60, "trio": 20, "count": 50, "word": 40, "sign": 30}
GOALS = {"colour and shape": 0.95, "relation": 0.90, "count": 0.90, "word": 0.80}

# Prompts and their seeds in, pictures in the same order out.
Generate = Callable[[Sequence[str], Sequence[int]], Sequence[Image.Image]]


@dataclass(frozen=True, slots=True)
class Question:
    scene: Scene
    prompt: str
    seed: int


def exam(seed: int = 2024) -> list[Question]:
    """The same held-out prompts every time."""
    rng = random.Random(seed)
    scenes = [draw_scene(rng, held_out=True, kind=kind) for kind, count in EXAM.items() for _ in range(count)]
    return [Question(scene, caption(rng, scene, complete=True), i) for i, scene in enumerate(scenes)]


@dataclass(frozen=True, slots=True)
class Report:
    questions: list[Question]
    images: list[Image.Image]
    verdicts: list[Verdict]

    @property
    def scores(self) -> dict[str, float]:
        """Shares of pictures that are right, by what was asked of them."""
        pairs = list(zip(self.questions, self.verdicts, strict=True))
        answers: dict[str, list[bool | None]] = {
            "colour and shape": [v.things for q, v in pairs if q.scene.kind in ("single", "pair", "trio")],
            "relation": [v.relation for _, v in pairs if v.relation is not None],
            "count": [v.count for _, v in pairs if v.count is not None],
            "colour and shape of counted": [v.things for q, v in pairs if q.scene.kind == "count"],
            "word": [v.word for _, v in pairs if v.word is not None],
            "everything": [v.is_right for _, v in pairs],
        }
        answers |= {f"all of {kind}": [v.is_right for q, v in pairs if q.scene.kind == kind] for kind in EXAM}
        return {name: sum(value is True for value in values) / len(values) for name, values in answers.items()}

    def failures(self) -> list[int]:
        return [i for i, verdict in enumerate(self.verdicts) if not verdict.is_right]

    def save(self, folder: Path) -> None:
        """The scores as JSON, a sheet of the first eight pictures of every kind and one of what went wrong."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scores.json").write_text(json.dumps(self.scores, indent=2) + "\n")
        by_kind = {kind: [i for i, q in enumerate(self.questions) if q.scene.kind == kind][:8] for kind in EXAM}
        self._sheet([i for first in by_kind.values() for i in first], folder / "sheet.png")
        self._sheet(self.failures()[:48], folder / "failures.png", with_seen=True)

    def _sheet(self, chosen: list[int], path: Path, with_seen: bool = False) -> None:
        notes = [self.questions[i].prompt + (f" -> {self.verdicts[i].seen}" if with_seen else "") for i in chosen]
        if chosen:
            contact_sheet([self.images[i] for i in chosen], notes).save(path, optimize=True)


def evaluate(generate: Generate, questions: Sequence[Question] | None = None) -> Report:
    """Ask for every question's picture and check it; `generate` may be a pipeline or a client of the server."""
    asked = list(exam() if questions is None else questions)
    images = list(generate([q.prompt for q in asked], [q.seed for q in asked]))
    return Report(asked, images, [check(q.scene, image) for q, image in zip(asked, images, strict=True)])


def time_one(generate: Generate, repetitions: int = 5) -> list[float]:
    """Seconds a picture takes, asked for alone; another prompt every time, and one before to warm up."""
    seconds = []
    for question in exam()[: repetitions + 1]:
        start = time.perf_counter()
        generate([question.prompt], [question.seed])
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--server", metavar="HOST:PORT", help="a running server over the checkpoint, its gRPC address")
    source.add_argument("--checkpoint", type=Path, default=Path("demo/checkpoint"), help="painted with diffusers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--scale", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=Path("demo/run/exam"))
    parser.add_argument("--speed", action="store_true", help="time single pictures instead of the exam")
    args = parser.parse_args()
    if args.server:
        generate = through_server(args.server, args.steps, args.scale)
    else:
        generate = _pipeline(args.checkpoint, args.steps, args.scale)
    if args.speed:
        seconds = time_one(generate)
        print(f"median {statistics.median(seconds):.2f} s of", ", ".join(f"{each:.2f}" for each in seconds))
        return
    report = evaluate(generate)
    report.save(args.out)
    for name, score in report.scores.items():
        goal = f"   goal {GOALS[name]:.0%}" if name in GOALS else ""
        print(f"{name:28} {score:6.1%}{goal}")


def through_server(url: str, steps: int = 20, scale: float = 4.0, in_flight: int = 8) -> Generate:
    """Asks a running server, a request a picture and `in_flight` of them at a time.

    Raises:
        SystemExit: no server is ready there.
    """
    from qwen_image_client import Client

    def generate(prompts: Sequence[str], seeds: Sequence[int]) -> list[Image.Image]:
        def paint(prompt: str, seed: int) -> Image.Image:
            options = {"negative_prompt": " ", "num_inference_steps": steps, "true_cfg_scale": scale}
            [made] = client.generate(prompt, seed=seed, height=128, width=128, **options)
            assert made.image is not None
            return made.image

        with Client(url) as client, ThreadPoolExecutor(in_flight) as pool:
            if not client.is_ready():
                raise SystemExit(f"no server is ready at {url}: scripts/serve starts one")
            return list(pool.map(paint, prompts, seeds))

    return generate


def _pipeline(checkpoint: Path, steps: int, scale: float) -> Generate:
    import torch
    from diffusers import QwenImagePipeline

    from demo.sampling import paint_prompts

    pipeline = QwenImagePipeline.from_pretrained(checkpoint, torch_dtype=torch.float32)
    pipeline.to("cuda" if torch.cuda.is_available() else "cpu")
    return lambda prompts, seeds: paint_prompts(pipeline, prompts, seeds, steps=steps, scale=scale)


if __name__ == "__main__":
    main()
