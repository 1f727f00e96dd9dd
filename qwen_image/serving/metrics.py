"""This project's Prometheus metrics, beside Triton's own on the same endpoint."""

from __future__ import annotations

import threading
from typing import Any

import triton_python_backend_utils as pb_utils

COUNTER, GAUGE = "COUNTER", "GAUGE"
HAND_OVER_EVERY_S = 0.1

FAMILIES: dict[str, tuple[str, str]] = {
    "qwen_image_images_total": (COUNTER, "Images finished"),
    "qwen_image_images_in_flight": (GAUGE, "Images being denoised now"),
    "qwen_image_images_waiting": (GAUGE, "Images that wait for a place"),
    "qwen_image_cancelled_images_total": (COUNTER, "Images ended by their request id"),
    "qwen_image_refused_images_total": (
        COUNTER,
        "Images refused for want of room, at their timeout or shutdown, or as a process was lost",
    ),
    "qwen_image_failed_steps_total": (COUNTER, "Calls of dit that failed for no fault of the request"),
    "qwen_image_not_finite_images_total": (COUNTER, "Images that failed because a model computed NaN or infinity"),
    "qwen_image_step_seconds_total": (
        COUNTER,
        "Seconds images waited for their steps, transport and queue included",
    ),
    "qwen_image_step_calls_total": (COUNTER, "Calls of dit, of one step or several, that images waited for"),
    "qwen_image_dit_steps_total": (COUNTER, "Denoising steps of single images computed"),
    "qwen_image_dit_batches_total": (COUNTER, "Batches the transformer ran"),
    "qwen_image_dit_batch_rows_total": (COUNTER, "Rows in these batches; divided by the batches: the mean batch"),
    "qwen_image_dit_compute_seconds_total": (COUNTER, "Seconds the transformer computed"),
    "qwen_image_dit_graph_misses_total": (COUNTER, "Shapes of calls that had no CUDA graph yet, at the start too"),
    "qwen_image_text_tokens_total": (COUNTER, "Prompt tokens asked for, the template's not counted"),
    "qwen_image_text_cache_hits_total": (COUNTER, "Prompts whose text states were held already"),
    "qwen_image_text_cache_misses_total": (COUNTER, "Prompts that had to be encoded"),
}


class Metrics:
    """The named metrics of one model, labelled with its name.

    `add` only takes note; one thread hands the sums to Triton ten times a second. A call into Triton is a round trip
    between processes that a step need not wait for, and two at a time crash the server (measured on 2.51).
    """

    def __init__(self, model_name: str, *names: str) -> None:
        self._names = frozenset(names)
        self._families: dict[str, Any] = {}
        self._metrics: dict[str, Any] = {}
        for name in names:
            kind, description = FAMILIES[name]
            self._families[name] = pb_utils.MetricFamily(
                name=name, description=description, kind=getattr(pb_utils.MetricFamily, kind)
            )
            self._metrics[name] = self._families[name].Metric(labels={"model": model_name})
        self._noted: dict[str, float] = {}
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._hand_over_until_closed, name="metrics", daemon=True)
        self._thread.start()

    def add(self, name: str, amount: float = 1.0) -> None:
        assert name in self._names, name
        with self._lock:
            self._noted[name] = self._noted.get(name, 0.0) + amount

    def close(self) -> None:
        """Hand over what is left, and give the metrics back: destroyed at the process's own end they crash it."""
        self._is_closing.set()
        self._thread.join()
        self._metrics.clear()
        self._families.clear()

    def _hand_over_until_closed(self) -> None:
        while not self._is_closing.wait(HAND_OVER_EVERY_S):
            self._hand_over()
        self._hand_over()

    def _hand_over(self) -> None:
        with self._lock:
            noted, self._noted = self._noted, {}
        for name, amount in noted.items():
            if amount:
                self._metrics[name].increment(amount)
