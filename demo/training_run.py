"""One training run: a step, the schedule of the learning rate, and what is saved on the way."""

from __future__ import annotations

import argparse
import copy
import time

import torch
from diffusers import AutoencoderKLQwenImage
from transformers import Qwen2Tokenizer

from demo.bank import Shelf, tokenize
from demo.dataset import MAIN_SIZE, Size
from demo.ema import MovingAverage
from demo.fast_transformer import prepare_for_training
from demo.flow import TextToLatents, Unconditional, flow_loss
from demo.models import assemble, save_checkpoint
from demo.optimizers import Optimizers
from demo.sampling import paint_prompts
from demo.sheet import contact_sheet, loss_curve

_WARM_UP_STEPS = 300
_DECAY_FROM = 0.55  # of the time: constant until here, then straight down to nothing
SHEET_PROMPTS = (
    "a red circle above a blue square on a yellow background",
    "three green stars",
    "a sign that says HELLO",
    "a purple heart on a white background",
    "the number 42 in red",
    "a small teal ring to the left of a large orange triangle",
    "a blue circle, a red square and a green star from left to right",
    "a white moon on a blue to black gradient background",
    'a yellow sign that says "GOLD" on a green background',
    "five pink diamonds on a black background",
    "the word NIGHT in white on a purple background",
    "a brown cross in the top left corner",
    "a black star below a pink heart",
    "six blue rings on a white background",
    "the letter Q",
    "a sign with the word SILVER on a red background",
)


class TrainingRun:
    """One training run: what it knows, and what it saves."""

    def __init__(
        self,
        args: argparse.Namespace,
        model: TextToLatents,
        tokenizer: Qwen2Tokenizer,
        shelves: dict[Size, Shelf],
        device: torch.device,
    ) -> None:
        self._args, self._tokenizer, self._shelves, self._device = args, tokenizer, shelves, device
        self._bare = copy.deepcopy(model)  # never compiled: the averaged weights are painted with it
        self._model = model.to(device)
        prepare_for_training(self._model, device)
        self._optimizers = Optimizers(self._model)
        self._average = MovingAverage(self._model, 0.9995)
        self._generator = torch.Generator(device).manual_seed(args.seed)
        tokens, lengths = tokenize(tokenizer, ["", " "])
        self._unconditional = Unconditional(tokens.long().to(device), lengths.long().to(device))
        self._losses: list[float] = []
        self._seconds, self._steps = 0.0, 0

    def train(self, vae: AutoencoderKLQwenImage) -> None:
        started = saved = time.monotonic()
        before, pending = self._seconds, []
        while (progress := self._seconds / (self._args.minutes * 60)) < 1:
            pending.append(self._step(progress))
            self._seconds = before + time.monotonic() - started
            if len(pending) == 200:
                self._losses += torch.stack(pending).tolist()
                pending = []
                recent = sum(self._losses[-200:]) / 200
                print(f"step {len(self._losses)} {progress:.1%} loss {recent:.4f}", flush=True)
            if time.monotonic() - saved > self._args.save_minutes * 60:
                self.save(vae)
                saved = time.monotonic()
        self._losses += torch.stack(pending).tolist() if pending else []
        self.save(vae)

    def _step(self, progress: float) -> torch.Tensor:
        """One step on the main size and, at its side, one other size."""
        counts = {MAIN_SIZE: self._args.batch}
        others = [size for size in self._shelves if size != MAIN_SIZE]
        if others:
            counts[others[self._steps % len(others)]] = self._args.other_batch
        return self._learn(counts, progress)

    def _learn(self, counts: dict[Size, int], progress: float) -> torch.Tensor:
        total = sum(counts.values())
        main_loss = torch.zeros(())
        for size, count in counts.items():
            loss = flow_loss(self._model, self._shelves[size], count, self._unconditional, self._generator)
            (loss * (count / total)).backward()
            main_loss = loss.detach() if size == MAIN_SIZE else main_loss
        self._steps += 1
        warmth = min(1.0, self._steps / _WARM_UP_STEPS)
        decay = min(1.0, (1 - progress) / (1 - _DECAY_FROM))
        self._optimizers.step(self._args.learning_rate * warmth * decay)
        self._average.update()
        return main_loss

    def rehearse(self, steps: int = 30) -> None:
        """Compile for every size, then time the main one."""
        for size in self._shelves:
            self._learn({MAIN_SIZE: self._args.batch, size: self._args.other_batch}, 0.0).item()
            print(f"compiled {size}", flush=True)
        started = time.monotonic()
        for _ in range(steps):
            loss = self._learn({MAIN_SIZE: self._args.batch, (192, 192): self._args.other_batch}, 0.0)
        loss.item()
        print(f"{(time.monotonic() - started) / steps * 1000:.1f} ms a step", flush=True)

    def save(self, vae: AutoencoderKLQwenImage) -> None:
        """The checkpoint of the averaged weights, its sample sheet, the loss curve and the state to go on from."""
        out = self._args.out
        state = {
            "model": self._model.state_dict(),
            "average": self._average.state(),
            "optimizers": self._optimizers.state(),
            "losses": self._losses,
            "seconds": self._seconds,
            "steps": self._steps,
        }
        torch.save(state, out / "state.pt.tmp")
        (out / "state.pt.tmp").replace(out / "state.pt")
        self._bare.load_state_dict(self._average.state(), strict=False)
        painter = copy.deepcopy(self._bare)
        pipeline = assemble(copy.deepcopy(vae), painter.text_encoder, painter.transformer, self._tokenizer)
        save_checkpoint(pipeline, out / "checkpoint")
        pipeline.to(self._device, torch.float32)
        images = paint_prompts(pipeline, SHEET_PROMPTS * 2, range(2 * len(SHEET_PROMPTS)))
        contact_sheet(images, SHEET_PROMPTS * 2).save(out / "sheet.png")
        loss_curve(self._losses, "flow-matching loss by step").save(out / "loss.png")

    def load(self) -> None:
        state = torch.load(self._args.out / "state.pt", map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._average.load(state["average"], state["steps"])
        self._optimizers.load(state["optimizers"])
        self._losses, self._seconds, self._steps = state["losses"], state["seconds"], state["steps"]
