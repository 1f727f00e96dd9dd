"""Requests to pictures: many at once with the models in hand, or one by one with diffusers or through a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from diffusers import AutoencoderKLQwenImage
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus
from diffusers.pipelines.qwenimage.pipeline_qwenimage import calculate_shift
from PIL import Image
from transformers import Qwen2Tokenizer

from build.tiny_checkpoint import EDIT_AREAS
from demo.editing.arrangement import SIDE, paint_arrangement
from demo.editing.bank import Encoder
from demo.editing.checkpoint import open_editor
from demo.editing.exam import GenerateEdits, Question
from demo.editing.model import EditToLatents
from demo.editing.tokens import tokenize_instructions
from demo.editing.vision import to_patches
from demo.models import build_scheduler
from demo.pictures_only import decode_latents, use_picture_kernels

STEPS, SCALE = 20, 4.0


class BatchSampler:
    """What the edit pipeline computes, for batches; diffusers' own takes one request at a time."""

    def __init__(
        self,
        model: EditToLatents,
        vae: AutoencoderKLQwenImage,
        tokenizer: Qwen2Tokenizer,
        *,
        steps: int = STEPS,
        scale: float = SCALE,
        batch: int = 128,
    ) -> None:
        use_picture_kernels(vae)
        self._model, self._vae, self._tokenizer = model, vae, tokenizer
        self._steps, self._scale, self._batch = steps, scale, batch
        self._device = next(model.parameters()).device
        self._encode = Encoder(vae, self._device)

    def __call__(self, questions: Sequence[Question]) -> list[Image.Image]:
        images: dict[int, Image.Image] = {}
        for references in (1, 2):
            chosen = [i for i, each in enumerate(questions) if len(each.edit.sources) == references]
            for start in range(0, len(chosen), self._batch):
                part = chosen[start : start + self._batch]
                images.update(zip(part, self._paint([questions[i] for i in part]), strict=True))
        return [images[i] for i in range(len(questions))]

    @torch.no_grad()
    def _paint(self, questions: Sequence[Question]) -> Iterator[Image.Image]:
        pictures = torch.from_numpy(
            np.stack([[np.asarray(paint_arrangement(each)) for each in q.edit.sources] for q in questions])
        ).to(self._device)
        references = self._encode(pictures.flatten(0, 1)).view(*pictures.shape[:2], 64, 64)
        asked = self._read([q.prompt for q in questions], pictures)
        unasked = self._read([" "] * len(questions), pictures)
        noise = [torch.randn(1, 1, 16, 16, 16, generator=torch.Generator().manual_seed(q.seed)) for q in questions]
        latents = _packed(torch.cat(noise)[:, 0]).to(self._device)
        scheduler = build_scheduler()
        mu = calculate_shift(latents.shape[1], 256, 8192, 0.5, 0.9)
        scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / self._steps, self._steps), mu=mu, device=self._device)
        for timestep in scheduler.timesteps:
            sigmas = (timestep / 1000).expand(len(latents))
            wanted = self._model(latents, references, sigmas, *asked)
            velocity = _guided(wanted, self._model(latents, references, sigmas, *unasked), self._scale)
            latents = scheduler.step(velocity, timestep, latents, return_dict=False)[0]
        return self._decode(latents)

    def _read(self, prompts: Sequence[str], pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, lengths = tokenize_instructions(self._tokenizer, prompts, pictures.shape[1])
        states = self._model.read(tokens.long().to(self._device), to_patches(pictures))
        return states, lengths.long().to(self._device)

    def _decode(self, latents: torch.Tensor) -> Iterator[Image.Image]:
        mean, std = (
            torch.tensor(values, device=self._device).view(1, -1, 1, 1)
            for values in (self._vae.config.latents_mean, self._vae.config.latents_std)
        )
        patches = latents.view(-1, 8, 8, 16, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(-1, 16, 16, 16)
        decoded = decode_latents(self._vae, patches * std + mean).clamp(-1, 1)
        pixels = ((decoded + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
        return map(Image.fromarray, pixels)


def _packed(latents: torch.Tensor) -> torch.Tensor:
    """As the pipeline packs noise: (B, 16, 16, 16) -> (B, 64, 64)."""
    return latents.view(-1, 16, 8, 2, 8, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, 64, 64)


def _guided(wanted: torch.Tensor, unwanted: torch.Tensor, scale: float) -> torch.Tensor:
    combined = unwanted + scale * (wanted - unwanted)
    return combined * (wanted.norm(dim=-1, keepdim=True) / combined.norm(dim=-1, keepdim=True))


def through_diffusers(checkpoint: Path, steps: int = STEPS, scale: float = SCALE) -> GenerateEdits:
    """The edit pipeline with the checkpoint's areas, which diffusers keeps as constants of the module."""
    pipeline = open_editor(checkpoint, "cuda" if torch.cuda.is_available() else "cpu")
    areas = EDIT_AREAS["QwenImageEditPlusPipeline"]

    def edit(question: Question) -> Image.Image:
        made: Image.Image = pipeline(
            image=[paint_arrangement(each) for each in question.edit.sources],
            prompt=question.prompt,
            negative_prompt=" ",
            height=SIDE,
            width=SIDE,
            num_inference_steps=steps,
            true_cfg_scale=scale,
            generator=torch.Generator().manual_seed(question.seed),
        ).images[0]
        return made

    def generate(questions: Sequence[Question]) -> list[Image.Image]:
        with patch.multiple(
            pipeline_qwenimage_edit_plus,
            VAE_IMAGE_SIZE=areas["_reference_area"],
            CONDITION_IMAGE_SIZE=areas["_condition_area"],
        ):
            return [edit(question) for question in questions]

    return generate


def through_server(url: str, steps: int = STEPS, scale: float = SCALE, in_flight: int = 8) -> GenerateEdits:
    """Asks a running server, a request an edit and `in_flight` of them at a time.

    Raises:
        SystemExit: no server is ready there.
    """
    from qwen_image_client import Client

    def generate(questions: Sequence[Question]) -> list[Image.Image]:
        def edit(question: Question) -> Image.Image:
            sources = [paint_arrangement(each) for each in question.edit.sources]
            options = {"negative_prompt": " ", "num_inference_steps": steps, "true_cfg_scale": scale}
            [made] = client.edit(question.prompt, sources, seed=question.seed, **options)
            assert made.image is not None
            return made.image

        with Client(url) as client, ThreadPoolExecutor(in_flight) as pool:
            if not client.is_ready():
                raise SystemExit(f"no server is ready at {url}: scripts/serve starts one")
            return list(pool.map(edit, questions))

    return generate
