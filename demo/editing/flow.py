"""What one training step asks of the models: the velocity of the edited picture."""

from __future__ import annotations

import torch

from demo.editing.bank import EditShelf
from demo.editing.model import EditToLatents
from demo.editing.vision import to_patches
from demo.flow import Unconditional, draw_sigmas

# Most patches are to be copied, which is soon learned; the others decide whether the request was understood.
_CHANGED_WEIGHT = 3.0


def edit_loss(
    model: EditToLatents, shelf: EditShelf, count: int, unconditional: Unconditional, generator: torch.Generator
) -> torch.Tensor:
    """The squared error of the velocity, noise minus picture; prompts are dropped, pictures never are."""
    drawn = shelf.draw(count, generator)
    tokens, lengths = unconditional.drop(drawn.tokens, drawn.lengths, generator)
    clean, references = drawn.latents[:, 0], drawn.latents[:, 1:]
    noise = torch.randn(clean.shape, device=clean.device, generator=generator)
    sigmas = draw_sigmas(count, clean.shape[1], clean.device, generator)
    level = sigmas[:, None, None]
    noisy = (1 - level) * clean + level * noise
    velocity = model(noisy, references, sigmas, model.read(tokens, to_patches(drawn.pictures)), lengths)
    errors = (velocity - (noise - clean)).square().mean(dim=-1)
    weights = 1 + (_CHANGED_WEIGHT - 1) * drawn.changed
    return (errors * weights).sum() / weights.sum()
