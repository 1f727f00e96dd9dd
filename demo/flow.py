"""Flow matching with the served schedule: what one training step asks of the models."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from diffusers import QwenImageTransformer2DModel
from diffusers.pipelines.qwenimage.pipeline_qwenimage import calculate_shift
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration

from demo.bank import Shelf
from demo.tokenizer import TEMPLATE_TOKENS

_DROPOUT = 0.12
_UNIFORM_SHARE = 0.3


class TextToLatents(nn.Module):
    """The two models that learn together."""

    def __init__(
        self, text_encoder: Qwen2_5_VLForConditionalGeneration, transformer: QwenImageTransformer2DModel
    ) -> None:
        super().__init__()
        self.text_encoder, self.transformer = text_encoder, transformer

    def forward(
        self, noisy: torch.Tensor, sigmas: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor, size: list[int]
    ) -> torch.Tensor:
        """The velocity (B, T, 64), for packed latents of `size` in patches."""
        # Padding stands on the right and attention is causal, so the states of real tokens never see it.
        with torch.autocast(noisy.device.type, torch.bfloat16, enabled=noisy.is_cuda):
            states = self.text_encoder.model.language_model(input_ids=tokens, use_cache=False).last_hidden_state
        states = states[:, TEMPLATE_TOKENS:].float()
        mask = torch.arange(states.shape[1], device=lengths.device) < lengths[:, None]
        velocity: torch.Tensor = self.transformer(
            hidden_states=noisy,
            encoder_hidden_states=states,
            encoder_hidden_states_mask=mask,
            timestep=sigmas,
            img_shapes=[[(1, *size)]] * len(noisy),
            return_dict=False,
        )[0]
        return velocity


@dataclass(frozen=True, slots=True)
class Unconditional:
    """The prompts that stand for no prompt: tokens (2, L) and lengths (2,) of "" and " "."""

    tokens: torch.Tensor
    lengths: torch.Tensor

    def drop(
        self, tokens: torch.Tensor, lengths: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Replace a share of the prompts."""
        draw = torch.rand(len(tokens), device=tokens.device, generator=generator)
        which = (draw < _DROPOUT / 2).long()
        dropped = draw < _DROPOUT
        tokens = torch.where(dropped[:, None], self.tokens[which], tokens)
        return tokens, torch.where(dropped, self.lengths[which], lengths)


def pack(latents: torch.Tensor) -> torch.Tensor:
    """(B, 16, h, w) -> (B, h/2 * w/2, 64)"""
    batch, channels, height, width = latents.shape
    patches = latents.view(batch, channels, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return patches.reshape(batch, height * width // 4, channels * 4)


def draw_sigmas(count: int, image_tokens: int, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Noise levels around the middle of the schedule that is served at this size."""
    normal = torch.randn(count, device=device, generator=generator).sigmoid()
    uniform = torch.rand(count, device=device, generator=generator)
    pick = torch.rand(count, device=device, generator=generator) < _UNIFORM_SHARE
    times = torch.where(pick, uniform, normal).clamp(1e-4, 1 - 1e-4)
    shift = math.exp(calculate_shift(image_tokens, 256, 8192, 0.5, 0.9))
    return shift * times / (1 + (shift - 1) * times)


def flow_loss(
    model: TextToLatents, shelf: Shelf, count: int, unconditional: Unconditional, generator: torch.Generator
) -> torch.Tensor:
    """The squared error of the velocity, noise minus picture."""
    latents, tokens, lengths = shelf.draw(count, generator)
    tokens, lengths = unconditional.drop(tokens, lengths, generator)
    clean = pack(latents.float())
    noise = torch.randn(clean.shape, device=clean.device, generator=generator)
    sigmas = draw_sigmas(count, clean.shape[1], clean.device, generator)
    level = sigmas[:, None, None]
    noisy = (1 - level) * clean + level * noise
    size = [latents.shape[2] // 2, latents.shape[3] // 2]
    velocity = model(noisy, sigmas, tokens, lengths, size)
    return (velocity - (noise - clean)).square().mean()
