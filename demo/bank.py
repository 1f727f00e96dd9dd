"""The training set in memory: encoded pictures and their tokenised captions, by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from diffusers import AutoencoderKLQwenImage
from transformers import Qwen2Tokenizer

from demo.dataset import Batch, Size, to_model_range
from demo.pictures_only import encode_moments
from demo.tokenizer import TEMPLATE, TEMPLATE_TOKENS

TEXT_TOKENS = 40  # of a prompt and the template's end; no caption of ours has more


@dataclass(slots=True)
class Shelf:
    """Everything of one size."""

    latents: torch.Tensor  # (N, 16, h, w) bf16, standardised
    tokens: torch.Tensor  # (N, wordings, TEMPLATE_TOKENS + TEXT_TOKENS) int16, padded on the right
    lengths: torch.Tensor  # (N, wordings) int16, without the template's prefix

    def draw(self, count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Random pictures, each with one of its wordings: latents, token ids, text lengths."""
        device = self.latents.device
        rows = torch.randint(len(self.latents), (count,), device=device, generator=generator)
        wordings = torch.randint(self.tokens.shape[1], (count,), device=device, generator=generator)
        return self.latents[rows], self.tokens[rows, wordings].long(), self.lengths[rows, wordings].long()


def tokenize(tokenizer: Qwen2Tokenizer, prompts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts in the pipeline's template, as padded ids and their lengths after the dropped prefix."""
    encoded = tokenizer(
        [TEMPLATE.format(prompt) for prompt in prompts],
        padding="max_length",
        max_length=TEMPLATE_TOKENS + TEXT_TOKENS,
        return_tensors="pt",
    )
    if encoded.input_ids.shape[1] > TEMPLATE_TOKENS + TEXT_TOKENS:
        raise ValueError(f"a caption has more than {TEXT_TOKENS} tokens")
    return encoded.input_ids.short(), (encoded.attention_mask.sum(dim=1) - TEMPLATE_TOKENS).short()


@torch.no_grad()
def fill_shelves(
    vae: AutoencoderKLQwenImage, batches: Iterator[Batch], pictures: int, device: torch.device
) -> dict[Size, Shelf]:
    """Encode so many pictures, whatever sizes they come in."""
    mean, std = (
        torch.tensor(values, device=device).view(1, -1, 1, 1)
        for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    parts: dict[Size, list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]] = {}
    done = 0
    while done < pictures:
        batch = next(batches)
        with torch.autocast(device.type, torch.bfloat16):
            moments = encode_moments(vae, to_model_range(batch.pixels, device)).float()
        latents = ((moments[:, :16] - mean) / std).bfloat16()
        parts.setdefault(batch.size, []).append((latents, batch.tokens, batch.lengths))
        done += len(batch.pixels)
    return {
        size: Shelf(*(torch.cat(column).to(device) for column in zip(*rows, strict=True)))
        for size, rows in parts.items()
    }


def blank_shelves(sizes: Iterable[Size], device: torch.device) -> dict[Size, Shelf]:
    """Shelves of nothing, for compiling ahead of the data."""
    return {
        (height, width): Shelf(
            torch.randn(64, 16, height // 8, width // 8, device=device).bfloat16(),
            torch.zeros(64, 1, TEMPLATE_TOKENS + TEXT_TOKENS, dtype=torch.int16, device=device),
            torch.full((64, 1), TEXT_TOKENS, dtype=torch.int16, device=device),
        )
        for height, width in sizes
    }
