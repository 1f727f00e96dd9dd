"""The diffusion transformer: every row of a batch advanced by its own sigmas."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qwen_image.dit.conditioning import Conditioning, ConditioningStore
from qwen_image.dit.engine import Grid
from qwen_image.dit.load import load_transformer
from qwen_image.dit.precision import Precision
from qwen_image.dit.step import StepRow, advance, draw_start
from qwen_image.errors import InvalidRequest
from qwen_image.serving.backend import ModelSettings, error_response, give_way, log_warm
from qwen_image.serving.gpu_health import end_if_gpu_is_lost
from qwen_image.serving.gpu_memory import gpu_memory
from qwen_image.serving.granted import check_is_from_model, grants_of_this_server
from qwen_image.serving.metrics import Metrics
from qwen_image.serving.model_process import be_watched
from qwen_image.serving.tensors import array, optional_array, response, text_column

PICTURES = ("reference_latents", "start_latents", "start_deviation", "start_mask")
OPTIONAL = ("reference_grids", *PICTURES)


class DitModel:
    """Triton's dynamic batcher gathers single steps of many images into one `execute`."""

    def initialize(self, args: Mapping[str, str]) -> None:
        start = time.perf_counter()
        settings = ModelSettings.from_args(args)
        give_way(settings.integer("niceness"))
        torch.set_num_threads(settings.integer("threads"))
        checkpoint = settings.checkpoint()
        self._engine = load_transformer(
            checkpoint,
            load_format=settings.load_format,
            engine=settings["engine"],
            manifest=Path(settings["engine_manifest"]),
            precision=Precision(settings["precision"]),
            device=settings.device,
            max_batch_tokens=settings.integer("max_batch_tokens"),
            image_tokens=(settings.integer("min_image_tokens"), settings.integer("max_image_tokens")),
            max_text_tokens=checkpoint.max_text_tokens,
        )
        self._channels = checkpoint.token_channels
        self._grants = grants_of_this_server()
        self._store = ConditioningStore(settings.integer("conditioning_store_bytes"))
        self._metrics = Metrics(
            settings.name,
            "qwen_image_dit_steps_total",
            "qwen_image_dit_batches_total",
            "qwen_image_dit_batch_rows_total",
            "qwen_image_dit_compute_seconds_total",
            "qwen_image_dit_graph_misses_total",
        )
        height, width = checkpoint.default_size
        multiple = checkpoint.family.size_multiple
        self._engine.warm_up(
            (height // multiple, width // multiple), settings.integer("max_image_tokens"), checkpoint.max_text_tokens
        )
        self._metrics.add("qwen_image_dit_graph_misses_total", self._engine.graph_misses)
        log_warm(settings.name, time.perf_counter() - start, gpu_memory())
        be_watched(settings.name)

    def finalize(self) -> None:
        self._metrics.close()

    def execute(self, requests: list[Any]) -> list[Any]:
        held: dict[int, list[StepRow]] = {}
        failed: dict[int, Exception] = {}
        for position, request in enumerate(requests):
            try:
                held[position] = self._read_rows(request)
            except Exception as error:  # a bad row never sinks its batch-mates
                failed[position] = error
        owners = [position for position, rows in held.items() for _ in rows]
        rows = [row for rows in held.values() for row in rows]
        results: dict[int, NDArray[np.float32]] = {}
        start, misses = time.perf_counter(), self._engine.graph_misses
        for positions, advanced in advance(rows, self._engine, self._channels):
            self._count(positions, rows)
            if isinstance(advanced, Exception):
                failed |= {owners[position]: advanced for position in positions}
            else:
                for position, latents in zip(positions, advanced.cpu().numpy(), strict=True):
                    results[position] = latents
        end_if_gpu_is_lost(failed.values())
        self._metrics.add("qwen_image_dit_compute_seconds_total", time.perf_counter() - start)
        self._metrics.add("qwen_image_dit_graph_misses_total", self._engine.graph_misses - misses)
        return [
            error_response(failed[position], request.request_id())
            if position in failed
            else response(latents=_stack([results[row] for row, owner in enumerate(owners) if owner == position]))
            for position, request in enumerate(requests)
        ]

    def _count(self, positions: Sequence[int], rows: Sequence[StepRow]) -> None:
        self._metrics.add("qwen_image_dit_batches_total")
        self._metrics.add("qwen_image_dit_batch_rows_total", len(positions))
        self._metrics.add("qwen_image_dit_steps_total", len(positions) * (len(rows[positions[0]].sigmas) - 1))

    def _read_rows(self, request: Any) -> list[StepRow]:
        """The rows of one request. InvalidRequest if the latents don't fit the grid, NotHeld if states are missing."""
        check_is_from_model(request, self._grants)
        grids, sigmas, scales, seeds = (array(request, name) for name in ("grid", "sigmas", "true_cfg_scale", "seed"))
        held = self._conditionings(request, seeds, grids)
        latents = optional_array(request, "latents")
        tokens = int(grids[0].prod())
        if latents is not None and latents.shape[1:] != (tokens, self._channels):
            raise InvalidRequest(
                f"latents has shape {list(latents.shape[1:])}; a grid of {grids[0, 0]} x {grids[0, 1]} tokens needs "
                f"[{tokens}, {self._channels}]"
            )
        return [
            StepRow(
                latents=None if latents is None else torch.from_numpy(latents[row]),
                seed=int(seeds[row, 0]),
                grid=(int(grids[row, 0]), int(grids[row, 1])),
                sigmas=tuple(map(float, sigmas[row])),
                conditioning=conditioning,
                true_cfg_scale=float(scales[row, 0]),
            )
            for row, conditioning in enumerate(held)
        ]

    def _conditionings(self, request: Any, seeds: NDArray[Any], grids: NDArray[Any]) -> list[Conditioning]:
        """What came with the call is kept for the image's next one."""
        image_ids = text_column(request, "image_id") or []
        embeds = optional_array(request, "prompt_embeds")
        if embeds is not None:
            negative_embeds = array(request, "negative_prompt_embeds")
            given = {name: optional_array(request, name) for name in OPTIONAL}
            for row, image_id in enumerate(image_ids):
                of_row = {name: None if value is None else value[row] for name, value in given.items()}
                states = (self._on_device(embeds[row]), self._on_device(negative_embeds[row]))
                grid = (int(grids[row, 0]), int(grids[row, 1]))
                self._store.put(image_id, self._conditioning(states, of_row, int(seeds[row, 0]), grid))
        return [self._store.get(image_id) for image_id in image_ids]

    def _conditioning(
        self,
        embeds: tuple[torch.Tensor, torch.Tensor],
        given: Mapping[str, NDArray[Any] | None],
        seed: int,
        grid: Grid,
    ) -> Conditioning:
        tokens = {name: self._tokens(values) for name in PICTURES if (values := given[name]) is not None}
        reference_grids = given["reference_grids"]
        grids = () if reference_grids is None else tuple((int(rows), int(columns)) for rows, columns in reference_grids)
        self._check_fit(tokens, grid, grids)
        start = None
        if "start_latents" in tokens:
            latents, deviation = tokens["start_latents"], tokens["start_deviation"]
            start = draw_start(seed, grid, latents, deviation, tokens.get("start_mask"), self._engine.dtype)
        return Conditioning(
            embeds=embeds[0],
            negative_embeds=embeds[1],
            references=tokens.get("reference_latents"),
            reference_grids=grids,
            start=start,
        )

    def _check_fit(self, tokens: Mapping[str, torch.Tensor], grid: Grid, reference_grids: Sequence[Grid]) -> None:
        """InvalidRequest unless a picture's tokens are as many as its grid has: else its batch would fail with it."""
        for name, tensor in tokens.items():
            grids = reference_grids if name == "reference_latents" else (grid,)
            wanted = (sum(rows * columns for rows, columns in grids), self._channels)
            if tensor.shape != wanted:
                raise InvalidRequest(
                    f"{name} has shape {list(tensor.shape)}; grids of {' and '.join(map(str, grids)) or 'nothing'} "
                    f"need {list(wanted)}"
                )

    def _tokens(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(self._engine.device)

    def _on_device(self, states: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.array(states)).to(self._engine.device, self._engine.dtype)


def _stack(results: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """One image's latents, the usual answer, are not copied for it."""
    return results[0][None] if len(results) == 1 else np.stack(results)
