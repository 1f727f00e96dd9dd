"""Train the VAE on painted scenes: python -m demo.train_vae --minutes 5."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from diffusers import AutoencoderKLQwenImage
from PIL import Image
from torch.nn import functional

from demo.dataset import MAIN_SIZE, OTHER_SIZES, Batch, painted_batches, to_model_range
from demo.ema import MovingAverage
from demo.models import TINY, ModelSizes, build_vae
from demo.pictures_only import decode_latents, encode_moments, use_picture_kernels
from demo.sheet import contact_sheet, loss_curve

_KL_WEIGHT = 3e-4
_EDGE_WEIGHT = 1.0


def main() -> None:
    args = _arguments().parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    sizes = {MAIN_SIZE: 7.0, (192, 192): 1.0}
    batches = painted_batches(sizes, args.batch, args.seed, args.workers)
    sizes_of = TINY if args.tiny else ModelSizes()
    vae = (AutoencoderKLQwenImage.from_pretrained(args.start) if args.start else build_vae(sizes_of)).to(device)
    if args.decoder_only:
        vae.requires_grad_(False)
        vae.decoder.requires_grad_(True)
    train(vae, batches, args.minutes * 60, args.learning_rate, device, args.out)
    if not args.decoder_only:
        every_size = painted_batches(dict.fromkeys((MAIN_SIZE, *OTHER_SIZES), 1.0), 64, args.seed + 1, args.workers)
        fit_latent_statistics(vae, every_size, args.statistics, device)
    vae.save_pretrained(args.out / "vae")
    report(vae, next(painted_batches({MAIN_SIZE: 1.0}, 32, args.seed + 2, 0)), device, args.out)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument(
        "--statistics", type=int, default=64, help="batches that the latents' mean and spread come from"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--tiny", action="store_true", help="a smoke test's sizes")
    parser.add_argument("--start", type=Path, help="a VAE to go on from")
    parser.add_argument("--decoder-only", action="store_true", help="keep the latents: they are trained on already")
    parser.add_argument("--out", type=Path, default=Path("demo/run"))
    return parser


def train(
    vae: AutoencoderKLQwenImage,
    batches: Iterator[Batch],
    seconds: float,
    learning_rate: float,
    device: torch.device,
    out: Path,
) -> None:
    """Reconstruct until the time is up, then take the averaged weights."""
    use_picture_kernels(vae)
    optimizer = torch.optim.AdamW(
        [p for p in vae.parameters() if p.requires_grad], lr=learning_rate, betas=(0.9, 0.98), weight_decay=1e-4
    )
    average, started = MovingAverage(vae, 0.999), time.monotonic()
    losses: list[torch.Tensor] = []
    while (progress := (time.monotonic() - started) / seconds) < 1:
        warmth = min(1.0, (len(losses) + 1) / 200)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * warmth * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        pictures = to_model_range(next(batches).pixels, device)
        with torch.autocast(device.type, torch.bfloat16):
            loss, parts = _loss(vae, pictures)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        average.update()
        losses.append(loss.detach())
        if len(losses) % 200 == 0:
            print(f"step {len(losses)} {progress:.0%} loss {loss.item():.4f} {parts.tolist()}", flush=True)
    vae.load_state_dict(average.state(), strict=False)
    out.mkdir(parents=True, exist_ok=True)
    loss_curve(torch.stack(losses).tolist(), "VAE loss by step").save(out / "vae_loss.png")


def _loss(vae: AutoencoderKLQwenImage, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, log_variance = encode_moments(vae, pictures).float().chunk(2, dim=1)
    log_variance = log_variance.clamp(-20, 10)
    latents = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
    decoded = decode_latents(vae, latents).float()
    pixel = functional.l1_loss(decoded, pictures) + functional.mse_loss(decoded, pictures)
    edge = functional.l1_loss(decoded.diff(dim=2), pictures.diff(dim=2)) + functional.l1_loss(
        decoded.diff(dim=3), pictures.diff(dim=3)
    )
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
    loss = pixel + _EDGE_WEIGHT * edge + _KL_WEIGHT * divergence
    return loss, torch.stack([pixel, edge, divergence]).detach()


@torch.no_grad()
def fit_latent_statistics(
    vae: AutoencoderKLQwenImage, batches: Iterator[Batch], count: int, device: torch.device
) -> None:
    """Write into the VAE's config the mean and spread that make its latents standard."""
    channels = []
    for _ in range(count):
        moments = encode_moments(vae, to_model_range(next(batches).pixels, device))
        channels.append(moments[:, :16].permute(1, 0, 2, 3).flatten(1).cpu())
    values = torch.cat(channels, dim=1)
    vae.register_to_config(
        latents_mean=[round(x, 4) for x in values.mean(dim=1).tolist()],
        latents_std=[round(x, 4) for x in values.std(dim=1).clamp(min=0.05).tolist()],
    )


@torch.no_grad()
def report(vae: AutoencoderKLQwenImage, batch: Batch, device: torch.device, out: Path) -> None:
    """Print the reconstruction's PSNR, and save pictures beside their reconstructions."""
    pictures = to_model_range(batch.pixels, device)
    decoded = decode_latents(vae, encode_moments(vae, pictures)[:, :16]).clamp(-1, 1)
    psnr = 10 * torch.log10(4 / (decoded - pictures).square().mean(dim=(1, 2, 3)))
    print(f"PSNR mean {psnr.mean():.2f} dB, worst {psnr.min():.2f} dB; latents {vae.config.latents_std}")
    rebuilt = ((decoded + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    both = [Image.fromarray(a) for pair in zip(batch.pixels.numpy(), rebuilt, strict=True) for a in pair]
    captions = [text for wordings in batch.captions for text in (wordings[0], "rebuilt")]
    contact_sheet(both, captions, 8).save(out / "vae_sheet.png")


if __name__ == "__main__":
    main()
