"""One call of the scheduler: rows of any size, prompt length and noise level, each advanced by its own sigmas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from qwen_image.dit.conditioning import Conditioning, Start
from qwen_image.dit.engine import Batch, Engine, Grid


@dataclass(frozen=True, slots=True)
class StepRow:
    """One image's part of a call. `latents` None: noise is drawn from `seed`, as diffusers draws it."""

    latents: torch.Tensor | None  # (L, in_channels) float32 tokens
    seed: int
    grid: Grid  # token rows and columns
    sigmas: tuple[float, ...]  # where the row is, then where each step takes it
    conditioning: Conditioning
    true_cfg_scale: float

    @property
    def uses_guidance(self) -> bool:
        return self.conditioning.negative_embeds.shape[0] > 0 and self.true_cfg_scale > 1

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Of the picture and of its references."""
        return self.grid, *self.conditioning.reference_grids

    @property
    def image_tokens(self) -> int:
        """That the transformer sees, references included."""
        return sum(rows * columns for rows, columns in self.grids)

    @property
    def group(self) -> tuple[tuple[Grid, ...], int]:
        """Rows of one group can share a batch: as large pictures, as many steps."""
        return self.grids, len(self.sigmas)


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
    latents = torch.stack([_initial_latents(row, channels, engine).to(engine.device) for row in rows])  # (B, L, C)
    sigmas = torch.tensor([row.sigmas for row in rows], dtype=torch.float32)  # (B, steps + 1)
    sigmas_there = sigmas.to(engine.device)
    guided = [position for position, row in enumerate(rows) if row.uses_guidance]
    branches = [*range(len(rows)), *guided]  # both guidance branches in one batch: (B + guided, ...)
    texts = [row.conditioning.embeds for row in rows] + [rows[each].conditioning.negative_embeds for each in guided]
    prompt_embeds, mask = pad_texts(texts, engine.device, engine.dtype)
    references = _references([rows[each] for each in branches])
    scales = torch.tensor([rows[position].true_cfg_scale for position in guided], device=engine.device)
    # On the device once: a list as an index would be sent, and waited for, at every step.
    branches_there, guided_there = (torch.tensor(each, device=engine.device) for each in (branches, guided))
    for step in range(sigmas.shape[1] - 1):
        now, then = sigmas_there[:, step], sigmas_there[:, step + 1]
        tokens, sigma = (latents[branches_there], sigmas[branches, step]) if guided else (latents, sigmas[:, step])
        predicted = engine.velocity(
            Batch(tokens, sigma, prompt_embeds, mask, rows[0].grid, references, rows[0].conditioning.reference_grids)
        )
        velocity = predicted[: len(rows)]
        if guided:
            velocity = velocity.clone()
            velocity[guided_there] = guide(velocity[guided_there], predicted[len(rows) :], scales)
        latents = latents + (then - now)[:, None, None] * velocity
        _keep_unmasked(latents, then, rows)
    return latents


def _initial_latents(row: StepRow, channels: int, engine: Engine) -> torch.Tensor:
    if row.latents is not None:
        return row.latents
    if row.conditioning.start is not None:
        return mixed(row.conditioning.start, row.sigmas[0])
    return draw_noise(row.seed, row.grid, channels, engine.dtype)


def _references(rows: list[StepRow]) -> torch.Tensor | None:
    """(B, R, C); rows of one batch have references of the same sizes, or none."""
    found = [row.conditioning.references for row in rows]
    return None if found[0] is None else torch.stack([each for each in found if each is not None])


def _keep_unmasked(latents: torch.Tensor, sigma: torch.Tensor, rows: list[StepRow]) -> None:
    """Inpainting: what the mask keeps goes back to the start picture, as noisy as the rest; in place."""
    for position, row in enumerate(rows):
        start = row.conditioning.start
        if start is not None and start.mask is not None:
            kept = mixed(start, sigma[position])
            latents[position] = (1 - start.mask) * kept + start.mask * latents[position]


def mixed(start: Start, sigma: float | torch.Tensor) -> torch.Tensor:
    """The start picture at a noise level: FlowMatchEulerDiscreteScheduler.scale_noise."""
    return sigma * start.noise + (1.0 - sigma) * start.latents


def draw_start(
    seed: int,
    grid: Grid,
    latents: torch.Tensor,
    deviation: torch.Tensor,
    mask: torch.Tensor | None,
    dtype: torch.dtype,
) -> Start:
    """The start picture drawn from the VAE's posterior, then its noise, from one generator, as the pipelines do.

    All (L, channels) float32 tokens: the posterior's mean and standard deviation, normalised; the mask.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = latents + deviation * _tokens(generator, grid, latents.shape[1], dtype).to(latents.device)
    return Start(drawn, _tokens(generator, grid, latents.shape[1], dtype).to(latents.device), mask)


def draw_noise(seed: int, grid: Grid, channels: int, dtype: torch.dtype) -> torch.Tensor:
    """Noise of one row, (L, channels) float32 tokens, from a CPU generator: QwenImagePipeline.prepare_latents.

    Drawn in the model's dtype, as the pipeline draws it: in bfloat16 the values are rounded.
    """
    return _tokens(torch.Generator().manual_seed(seed), grid, channels, dtype)


def _tokens(generator: torch.Generator, grid: Grid, channels: int, dtype: torch.dtype) -> torch.Tensor:
    """Normal values drawn in the order of a picture's latents (channels / 4, 2 * rows, 2 * columns), as tokens."""
    rows, columns = grid
    latent_channels = channels // 4
    noise = torch.randn((latent_channels, 2 * rows, 2 * columns), generator=generator, dtype=dtype)
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
