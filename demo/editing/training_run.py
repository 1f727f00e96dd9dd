"""One training run of the editor: a step, the schedule of the learning rate, and what is saved on the way."""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import torch
from diffusers import AutoencoderKLQwenImage
from transformers import Qwen2Tokenizer

from demo.editing.bank import EditShelf, Encoder
from demo.editing.checkpoint import assemble_editor, save_editor
from demo.editing.dataset import Collector
from demo.editing.exam import evaluate_edits, exam
from demo.editing.flow import edit_loss
from demo.editing.model import EditToLatents
from demo.editing.sampling import BatchSampler
from demo.editing.tokens import tokenize_instructions
from demo.ema import MovingAverage
from demo.fast_transformer import prepare_for_training
from demo.flow import Unconditional
from demo.optimizers import Optimizers
from demo.pictures_only import use_picture_kernels
from demo.sheet import loss_curve

_WARM_UP_STEPS = 100
_DECAY_FROM = 0.5  # of the time: constant until here, then straight down to nothing
_REPORT_STEPS = 100
_REFILL_STEPS, _REFILL_BATCHES = 8, 6


class EditTrainingRun:
    """One training run: what it knows, and what it saves."""

    def __init__(
        self,
        args: argparse.Namespace,
        model: EditToLatents,
        vae: AutoencoderKLQwenImage,
        tokenizer: Qwen2Tokenizer,
        device: torch.device,
    ) -> None:
        self._args, self._tokenizer, self._device = args, tokenizer, device
        self._vae = vae.eval().requires_grad_(False)
        self._bare = copy.deepcopy(model)  # never compiled: the averaged weights are saved and examined with it
        self._model = model.to(device)
        prepare_for_training(self._model, device)
        self._optimizers = Optimizers(self._model, sees_pictures=True)
        self._average = MovingAverage(self._model, 0.9995)
        self._generator = torch.Generator(device).manual_seed(args.seed)
        self._counts = {1: args.batch, 2: max(1, args.batch // 4)}
        self._shelves = {
            references: EditShelf(references, max(1, round(args.pairs * share)), device)
            for references, share in ((1, 0.8), (2, 0.2))
        }
        self._unconditional = {references: self._blank(references) for references in self._counts}
        self._losses: list[float] = []
        self._seconds, self._steps = 0.0, 0

    def _blank(self, references: int) -> Unconditional:
        tokens, lengths = tokenize_instructions(self._tokenizer, ["", " "], references)
        return Unconditional(tokens.long().to(self._device), lengths.long().to(self._device))

    def rehearse(self) -> None:
        """Compile for both numbers of pictures, on empty shelves; nothing is learned from them."""
        for references in self._counts:
            started = time.monotonic()
            self._backward(references).item()
            print(f"{references} picture(s) compiled in {time.monotonic() - started:.0f} s", flush=True)
        self._model.zero_grad(set_to_none=True)

    def fill(self, collector: Collector, pairs: int, seconds: float) -> None:
        """Encode painted requests until there are so many, or the time is up and both kinds have some."""
        started, done, encode = time.monotonic(), 0, self._encoder()
        while done < pairs:
            late = time.monotonic() - started > seconds
            if late and all(shelf.filled for shelf in self._shelves.values()):
                break
            batch = collector.take()
            self._shelves[batch.references].add(batch, encode)
            done += len(batch.pixels)
        print(f"{done} edits encoded in {time.monotonic() - started:.0f} s, {collector.ready} batches wait", flush=True)

    def _encoder(self) -> Encoder:
        vae = copy.deepcopy(self._vae).to(self._device)
        use_picture_kernels(vae)
        return Encoder(vae, self._device)

    @property
    def minutes(self) -> float:
        """Of training so far, in this run and those that it goes on from."""
        return self._seconds / 60

    def train(self, collector: Collector, minutes: float) -> None:
        """Until so many minutes of training, those of earlier runs counted, are over."""
        started = saved = time.monotonic()
        before, pending, encode = self._seconds, [], self._encoder()
        while (progress := self._seconds / (minutes * 60)) < 1:
            pending.append(self._step(progress))
            if self._steps % _REFILL_STEPS == 0:
                self._refill(collector, encode)
            self._seconds = before + time.monotonic() - started
            if len(pending) == _REPORT_STEPS:
                self._report(pending, progress)
                pending = []
            if time.monotonic() - saved > self._args.save_minutes * 60:
                self.save(questions=40)
                saved = time.monotonic()
        self._losses += torch.stack(pending).tolist() if pending else []
        self.save(questions=None)

    def _refill(self, collector: Collector, encode: Encoder) -> None:
        """Some painted batches at once: copying them to a GPU waits for all that it still has to do."""
        for _ in range(_REFILL_BATCHES):
            if batch := collector.take_if_ready():
                self._shelves[batch.references].add(batch, encode)

    def _report(self, pending: list[torch.Tensor], progress: float) -> None:
        self._losses += torch.stack(pending).tolist()
        recent = sum(self._losses[-_REPORT_STEPS:]) / _REPORT_STEPS
        print(f"step {len(self._losses)} {progress:.1%} {self._seconds:.0f} s loss {recent:.4f}", flush=True)

    def _backward(self, references: int) -> torch.Tensor:
        count = self._counts[references]
        loss = edit_loss(
            self._model, self._shelves[references], count, self._unconditional[references], self._generator
        )
        (loss * (count / sum(self._counts.values()))).backward()
        return loss.detach()

    def _step(self, progress: float) -> torch.Tensor:
        """One step on requests of one picture and of two; the loss of the first."""
        losses = [self._backward(references) for references in self._counts]
        self._steps += 1
        warmth = min(1.0, self._steps / _WARM_UP_STEPS)
        decay = min(1.0, (1 - progress) / (1 - _DECAY_FROM))
        self._optimizers.step(self._args.learning_rate * warmth * decay)
        self._average.update()
        return losses[0]

    def save(self, questions: int | None) -> None:
        """The checkpoint of the averaged weights, the loss curve, the state to go on from, and an exam of it."""
        out = self._args.out
        self._save_state(out / "edit_state.pt")
        self._bare.load_state_dict(self._average.state(), strict=False)
        painter = copy.deepcopy(self._bare)
        save_editor(assemble_editor(painter, copy.deepcopy(self._vae), self._tokenizer), out / "edit-checkpoint")
        loss_curve(self._losses, "flow-matching loss by step").save(out / "edit_loss.png")
        self._examine(out, questions)

    def _examine(self, out: Path, questions: int | None) -> None:
        started, all_questions = time.monotonic(), exam()
        chosen = all_questions if questions is None else all_questions[:: -(-len(all_questions) // questions)]
        chosen = chosen[: self._args.questions]
        model = copy.deepcopy(self._bare).to(self._device)
        sampler = BatchSampler(model, copy.deepcopy(self._vae).to(self._device), self._tokenizer)
        report = evaluate_edits(sampler, chosen)
        report.save(out / "edit-exam")
        scores = ", ".join(f"{name.removeprefix('all of ')} {score:.0%}" for name, score in report.scores.items())
        print(f"{len(chosen)} held-out edits in {time.monotonic() - started:.0f} s: {scores}", flush=True)

    def _save_state(self, path: Path) -> None:
        state = {
            "model": self._model.state_dict(),
            "average": self._average.state(),
            "optimizers": self._optimizers.state(),
            "losses": self._losses,
            "seconds": self._seconds,
            "steps": self._steps,
        }
        unfinished = path.with_suffix(".tmp")
        torch.save(state, unfinished)
        unfinished.replace(path)

    def load(self) -> None:
        state = torch.load(self._args.out / "edit_state.pt", map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._average.load(state["average"], state["steps"])
        self._optimizers.load(state["optimizers"])
        self._losses, self._seconds, self._steps = state["losses"], state["seconds"], state["steps"]
