"""This project's Prometheus metrics, beside Triton's own on the same endpoint."""

from __future__ import annotations

from typing import Any

import triton_python_backend_utils as pb_utils

COUNTER, GAUGE = "COUNTER", "GAUGE"

FAMILIES: dict[str, tuple[str, str]] = {
    "qwen_image_images_total": (COUNTER, "Images finished"),
    "qwen_image_images_in_flight": (GAUGE, "Images being denoised now"),
    "qwen_image_cancelled_images_total": (COUNTER, "Images ended by their request id"),
    "qwen_image_retried_steps_total": (COUNTER, "Calls of dit that failed and were made again"),
    "qwen_image_step_seconds_total": (
        COUNTER,
        "Seconds images waited for their steps, transport and queue included",
    ),
    "qwen_image_step_calls_total": (COUNTER, "Steps (or steps_per_call of them) that images waited for"),
    "qwen_image_dit_steps_total": (COUNTER, "Denoising steps of single images computed"),
    "qwen_image_dit_batches_total": (COUNTER, "Batches the transformer ran"),
    "qwen_image_dit_batch_rows_total": (COUNTER, "Rows in these batches; divided by the batches: the mean batch"),
    "qwen_image_dit_compute_seconds_total": (COUNTER, "Seconds the transformer computed"),
    "qwen_image_text_tokens_total": (COUNTER, "Prompt tokens encoded, the template's not counted"),
}


class Metrics:
    """The named metrics of one model, labelled with its name."""

    def __init__(self, model_name: str, *names: str) -> None:
        self._families: dict[str, Any] = {}
        self._metrics: dict[str, Any] = {}
        for name in names:
            kind, description = FAMILIES[name]
            self._families[name] = pb_utils.MetricFamily(
                name=name, description=description, kind=getattr(pb_utils.MetricFamily, kind)
            )
            self._metrics[name] = self._families[name].Metric(labels={"model": model_name})

    def add(self, name: str, amount: float = 1.0) -> None:
        self._metrics[name].increment(amount)
