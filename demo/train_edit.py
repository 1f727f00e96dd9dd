"""Teach the demo checkpoint to edit: python -m demo.train_edit --minutes 6."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from demo.editing.dataset import Collector
from demo.editing.model import EditToLatents
from demo.editing.training_run import EditTrainingRun
from demo.models import TINY, build_text_encoder, build_transformer

_PAINTED_AT_ONCE = 64
_LAST_SAVE_S = 30.0  # that the last checkpoint and its exam may take


def main() -> None:
    started, args = time.monotonic(), _arguments().parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Qwen2Tokenizer.from_pretrained(args.start / "tokenizer")
    at_once = min(_PAINTED_AT_ONCE, args.batch)
    collector = Collector(at_once, args.seed, args.workers, tokenizer, most=args.pairs // at_once + 1)
    try:
        vae = AutoencoderKLQwenImage.from_pretrained(args.start / "vae", torch_dtype=torch.float32)
        run = EditTrainingRun(args, _model(args, tokenizer), vae, tokenizer, device)
        if device.type == "cuda":
            run.rehearse()
        if args.resume:
            run.load()
        run.fill(collector, args.pairs, args.fill_seconds)
        minutes = args.minutes
        if args.within_minutes:
            left = args.within_minutes - (time.monotonic() - started + _LAST_SAVE_S) / 60
            minutes = min(minutes, run.minutes + left)
        print(f"ready after {time.monotonic() - started:.0f} s; training until {minutes:.2f} minutes", flush=True)
        run.train(collector, minutes)
    finally:
        collector.stop()


def _model(args: argparse.Namespace, tokenizer: Qwen2Tokenizer) -> EditToLatents:
    torch.manual_seed(args.seed)
    if args.tiny:
        return EditToLatents(build_text_encoder(TINY, tokenizer), build_transformer(TINY), tokenizer)
    text_encoder = Qwen2_5_VLForConditionalGeneration.from_pretrained(args.start / "text_encoder", dtype=torch.float32)
    transformer = QwenImageTransformer2DModel.from_pretrained(args.start / "transformer", torch_dtype=torch.float32)
    return EditToLatents(text_encoder, transformer, tokenizer)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6, help="of training; compiling and painting come before")
    parser.add_argument("--within-minutes", type=float, help="shorten training so that all is done after so long")
    parser.add_argument("--pairs", type=int, default=200_000, help="edits in memory; new ones take old ones' places")
    parser.add_argument("--fill-seconds", type=float, default=45, help="train with fewer edits after so long")
    parser.add_argument("--batch", type=int, default=1024, help="edits of one picture in a step; of two, a quarter")
    parser.add_argument("--learning-rate", type=float, default=1.2e-3)
    parser.add_argument("--save-minutes", type=float, default=2)
    parser.add_argument("--questions", type=int, default=1000, help="of the exam at the end, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--tiny", action="store_true", help="a smoke test's models, not trained before")
    parser.add_argument("--resume", action="store_true", help="go on from the state that the last run saved")
    parser.add_argument("--start", type=Path, default=Path("demo/checkpoint"), help="the checkpoint to start from")
    parser.add_argument("--out", type=Path, default=Path("demo/run"))
    return parser


if __name__ == "__main__":
    main()
