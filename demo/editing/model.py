"""Text encoder and transformer as the edit pipeline runs them, for batches of equally many pictures."""

from __future__ import annotations

import torch
from diffusers import QwenImageTransformer2DModel
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from demo.editing.tokens import TEXT_TOKENS, picture_columns, token_positions
from demo.editing.vision import see
from demo.tokenizer import EDIT_TEMPLATE_TOKENS

GRID = 8  # patches a side of a picture of 128 pixels


class EditToLatents(nn.Module):
    """The two models that learn together."""

    def __init__(
        self,
        text_encoder: Qwen2_5_VLForConditionalGeneration,
        transformer: QwenImageTransformer2DModel,
        tokenizer: Qwen2Tokenizer,
    ) -> None:
        super().__init__()
        self.text_encoder, self.transformer = text_encoder, transformer
        for references, length in TEXT_TOKENS.items():
            columns = picture_columns(tokenizer, references)
            positions = token_positions(columns, EDIT_TEMPLATE_TOKENS + length)
            self.register_buffer(f"columns_{references}", torch.tensor(columns), persistent=False)
            self.register_buffer(f"positions_{references}", positions, persistent=False)

    def forward(
        self,
        noisy: torch.Tensor,
        references: torch.Tensor,
        sigmas: torch.Tensor,
        states: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """The velocity (B, 64, 64) of packed latents `noisy`; those of `references` are (B, R, 64, 64) and clean."""
        mask = torch.arange(states.shape[1], device=lengths.device) < lengths[:, None]
        pictures = 1 + references.shape[1]
        velocity: torch.Tensor = self.transformer(
            hidden_states=torch.cat([noisy, references.flatten(1, 2)], dim=1),
            encoder_hidden_states=states,
            encoder_hidden_states_mask=mask,
            timestep=sigmas,
            img_shapes=[[(1, GRID, GRID)] * pictures] * len(noisy),
            return_dict=False,
        )[0]
        return velocity[:, : noisy.shape[1]]

    def read(self, tokens: torch.Tensor, patches: torch.Tensor) -> torch.Tensor:
        """Token ids (B, L) and the patches of the pictures in them (B, R, N, 1176) to text states (B, L - 64, dim)."""
        language = self.text_encoder.model.language_model
        columns = getattr(self, f"columns_{patches.shape[1]}")
        positions = getattr(self, f"positions_{patches.shape[1]}")
        # Padding stands on the right and attention is causal, so the states of real tokens never see it.
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=tokens.is_cuda):
            seen = see(self.text_encoder.model.visual, patches.flatten(0, 1)).reshape(len(tokens), len(columns), -1)
            embeddings = language.embed_tokens(tokens)
            embeddings = embeddings.index_copy(1, columns, seen.to(embeddings.dtype))
            states = language(
                inputs_embeds=embeddings,
                position_ids=positions[:, None].expand(3, len(tokens), -1),
                use_cache=False,
            ).last_hidden_state
        return states[:, EDIT_TEMPLATE_TOKENS:].float()
