"""The transformer in PyTorch: the CPU's engine, and any GPU's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from qwen_image.dit.engine import Batch

if TYPE_CHECKING:
    from qwen_image.checkpoint import Checkpoint


class TorchEngine:
    """diffusers' QwenImageTransformer2DModel, run as it is."""

    def __init__(
        self, checkpoint: Checkpoint, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        from diffusers import QwenImageTransformer2DModel

        self.device = torch.device(device)
        self.dtype = dtype
        self._transformer = (
            QwenImageTransformer2DModel.from_pretrained(checkpoint.folder / "transformer", torch_dtype=dtype)
            .to(self.device)
            .eval()
        )

    @torch.inference_mode()
    def velocity(self, batch: Batch) -> torch.Tensor:
        rows, columns = batch.grid
        predicted: torch.Tensor = self._transformer(
            hidden_states=batch.tokens.to(self.dtype),
            timestep=batch.sigma.to(self.dtype),
            encoder_hidden_states=batch.prompt_embeds.to(self.dtype),
            encoder_hidden_states_mask=batch.prompt_embeds_mask,
            img_shapes=[[(1, rows, columns)]] * batch.tokens.shape[0],
            return_dict=False,
        )[0]
        return predicted.float()
