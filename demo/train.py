"""Train text encoder and transformer together by flow matching: python -m demo.train --minutes 15."""

from __future__ import annotations

import argparse
import copy
import time
from functools import partial
from pathlib import Path

import torch
from diffusers import AutoencoderKLQwenImage
from transformers import Qwen2Tokenizer

from demo.bank import Shelf, blank_shelves, fill_shelves, tokenize
from demo.dataset import MAIN_SIZE, OTHER_SIZES, Size, painted_batches
from demo.flow import TextToLatents
from demo.models import TINY, ModelSizes, build_text_encoder, build_transformer
from demo.pictures_only import use_picture_kernels
from demo.tokenizer import train_tokenizer
from demo.training_run import TrainingRun

_MAIN_SHARE = 0.72  # of the pictures that are painted, those of the main size


def main() -> None:
    args = _arguments().parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    sizes = TINY if args.tiny else ModelSizes()
    tokenizer = train_tokenizer()
    torch.manual_seed(args.seed)
    model = TextToLatents(build_text_encoder(sizes, tokenizer), build_transformer(sizes))
    if args.compile_only:
        shelves = blank_shelves((MAIN_SIZE, *OTHER_SIZES), device)
        TrainingRun(args, model, tokenizer, shelves, device).rehearse()
        return
    vae = AutoencoderKLQwenImage.from_pretrained(args.out / "vae")
    run = TrainingRun(args, model, tokenizer, _shelves(args, vae, tokenizer, device), device)
    if args.resume:
        run.load()
    run.train(vae)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15, help="of training, filling the shelves not counted")
    parser.add_argument("--pictures", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=1024, help="pictures of the main size in a step")
    parser.add_argument("--other-batch", type=int, default=160, help="pictures of one other size in a step")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--save-minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--tiny", action="store_true", help="a smoke test's sizes")
    parser.add_argument("--resume", action="store_true", help="go on from the state that the last run saved")
    parser.add_argument("--compile-only", action="store_true", help="fill the compiler's cache and time a step")
    parser.add_argument("--out", type=Path, default=Path("demo/run"), help="where the VAE is and everything goes")
    return parser


def _shelves(
    args: argparse.Namespace, vae: AutoencoderKLQwenImage, tokenizer: Qwen2Tokenizer, device: torch.device
) -> dict[Size, Shelf]:
    started = time.monotonic()
    weights = {MAIN_SIZE: _MAIN_SHARE} | dict.fromkeys(OTHER_SIZES, (1 - _MAIN_SHARE) / len(OTHER_SIZES))
    batch = min(128, max(1, args.pictures // 32))
    batches = painted_batches(weights, batch, args.seed, args.workers, partial(tokenize, tokenizer))
    encoder = copy.deepcopy(vae).to(device)
    use_picture_kernels(encoder)
    shelves = fill_shelves(encoder, batches, args.pictures, device)
    print(f"{args.pictures} pictures encoded in {time.monotonic() - started:.0f} s", flush=True)
    return shelves


if __name__ == "__main__":
    main()
