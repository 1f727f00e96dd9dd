"""One call of the scheduler: rows of any size, prompt length and noise level, each advanced by its own sigmas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from qwen_image.dit.engine import Batch, Engine
from qwen_image.dit.prompts import Prompt


@dataclass(frozen=True, slots=True)
class StepRow:
    """One image's part of a call. `latents` None: noise is drawn from `seed`, as diffusers draws it."""

    latents: torch.Tensor | None  # (L, in_channels) float32 tokens
    seed: int
    grid: tuple[int, int]  # token rows and columns
    sigmas: tuple[float, ...]  # where the row is, then where each step takes it
    prompt: Prompt
    true_cfg_scale: float

    @property
    def uses_guidance(self) -> bool:
        return self.prompt.negative_embeds.shape[0] > 0

    @property
    def image_tokens(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def group(self) -> tuple[tuple[int, int], int]:
        """Rows of one group can share a batch: as large a picture, as many steps."""
        return self.grid, len(self.sigmas)


def advance(
    rows: Sequence[StepRow], engine: Engine, channels: int
) -> Iterator[tuple[list[int], torch.Tensor | Exception]]:
    """Advance all rows, batch by batch: yields positions in `rows` and their latents, (B, L, channels) float32.

    Sizes are grouped, not refused. The engine bounds a batch, both guidance branches counted; a single row is never
    split. A batch that fails yields its error, so that the others still get theirs.
    """
    order = sorted(range(len(rows)), key=lambda position: rows[position].group)
    for _, same in groupby(order, key=lambda position: rows[position].group):
        for positions in _as_large_as_allowed(list(same), rows, engine):
            try:
                yield positions, _advance_batch([rows[position] for position in positions], engine, channels)
            except Exception as error:
                yield positions, error


def _as_large_as_allowed(positions: list[int], rows: Sequence[StepRow], engine: Engine) -> Iterator[list[int]]:
    max_branches = engine.max_rows(rows[positions[0]].image_tokens)
    batch: list[int] = []
    branches = 0
    for position in positions:
        cost = 2 if rows[position].uses_guidance else 1
        if batch and branches + cost > max_branches:
            yield batch
            batch, branches = [], 0
        batch.append(position)
        branches += cost
    yield batch


@torch.inference_mode()
def _advance_batch(rows: list[StepRow], engine: Engine, channels: int) -> torch.Tensor:
    latents = torch.stack([_initial_latents(row, channels, engine) for row in rows]).to(engine.device)  # (B, L, C)
    sigmas = torch.tensor([row.sigmas for row in rows], dtype=torch.float32, device=engine.device)  # (B, steps + 1)
    guided = [position for position, row in enumerate(rows) if row.uses_guidance]
    texts = [row.prompt.embeds for row in rows] + [rows[position].prompt.negative_embeds for position in guided]
    prompt_embeds, mask = pad_texts(texts, engine.device, engine.dtype)
    scales = torch.tensor([rows[position].true_cfg_scale for position in guided], device=engine.device)
    for step in range(sigmas.shape[1] - 1):
        now, then = sigmas[:, step], sigmas[:, step + 1]
        # both guidance branches in one batch: (B + guided, L, C)
        tokens = torch.cat([latents, latents[guided]]) if guided else latents
        sigma = torch.cat([now, now[guided]]) if guided else now
        predicted = engine.velocity(Batch(tokens, sigma, prompt_embeds, mask, rows[0].grid))
        velocity = predicted[: len(rows)]
        if guided:
            velocity = velocity.clone()
            velocity[guided] = guide(velocity[guided], predicted[len(rows) :], scales)
        latents = latents + (then - now)[:, None, None] * velocity
    return latents


def _initial_latents(row: StepRow, channels: int, engine: Engine) -> torch.Tensor:
    return row.latents if row.latents is not None else draw_noise(row.seed, row.grid, channels, engine.dtype)


def draw_noise(seed: int, grid: tuple[int, int], channels: int, dtype: torch.dtype) -> torch.Tensor:
    """Noise of one row, (L, channels) float32 tokens, from a CPU generator: QwenImagePipeline.prepare_latents.

    Drawn in the model's dtype, as the pipeline draws it: in bfloat16 the values are rounded.
    """
    rows, columns = grid
    latent_channels = channels // 4
    noise = torch.randn(
        (latent_channels, 2 * rows, 2 * columns), generator=torch.Generator().manual_seed(seed), dtype=dtype
    )
    patches = noise.view(latent_channels, rows, 2, columns, 2).permute(1, 3, 0, 2, 4)
    return patches.reshape(rows * columns, channels).float()


def pad_texts(
    texts: Sequence[torch.Tensor], device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Texts of (T_i, dim) -> (B, T, dim), right-padded with zeros to the longest, and the mask (None: all as long)."""
    lengths = [text.shape[0] for text in texts]
    padded = torch.zeros(len(texts), max(lengths), texts[0].shape[1], dtype=dtype, device=device)
    for row, text in enumerate(texts):
        padded[row, : lengths[row]] = text.to(device, dtype)
    if min(lengths) == max(lengths):
        return padded, None
    positions = torch.arange(max(lengths), device=device)
    return padded, positions[None, :] < torch.tensor(lengths, device=device)[:, None]


def guide(positive: torch.Tensor, negative: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """True classifier-free guidance, rescaled to the positive branch's norm over channels: QwenImagePipeline's.

    combined = negative + scale · (positive − negative), then times ‖positive‖ / ‖combined‖. All (B, L, C), scale (B,).
    """
    combined = negative + scale[:, None, None] * (positive - negative)
    rescaled: torch.Tensor = combined * (positive.norm(dim=-1, keepdim=True) / combined.norm(dim=-1, keepdim=True))
    return rescaled
