"""Settings of a rendered repository: one set of defaults for a machine without a GPU, one for a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

from qwen_image.checkpoint import LoadFormat
from qwen_image.dit.precision import Precision
from qwen_image.engines.library import ENGINES
from qwen_image.errors import RenderError

MIB, GIB = 1024**2, 1024**3
DTYPES = ("float32", "bfloat16")
ALLOWED: dict[str, tuple[str, ...]] = {  # settings that not every value of their type is right for
    "load_format": tuple(LoadFormat),
    "device": ("cpu", "cuda"),
    "kind": ("KIND_CPU", "KIND_GPU"),
    "engine": ENGINES,
    "precision": tuple(Precision),
    "vae_dtype": DTYPES,
    "text_encoder_dtype": DTYPES,
    "text_encoder_enforce_eager": ("true", "false"),
    "watchdog": ("on", "off"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, with its default on a CPU: float32 on the Python backend. RenderError names what is allowed."""

    max_rows: int = 8  # images in one request
    load_format: LoadFormat = LoadFormat.AUTO  # dummy: random weights, made on the device; no files are read
    device: str = "cpu"
    kind: str = "KIND_CPU"  # of the models that compute
    validator_instances: int = 2  # processes that decode pictures; requests wait while all of them do
    niceness: int = 10  # of the processes that compute: on a CPU they give way to those that answer
    engine: str = "torch"  # of the transformer's blocks
    precision: Precision = Precision.FP32  # of the transformer
    dit_max_batch_size: int = 8
    dit_instances: int = 1
    dit_threads: int = os.cpu_count() or 1
    max_batch_tokens: int = 65_536  # image tokens of one batch on torch, both guidance branches counted
    conditioning_store_bytes: int = 1 * GIB  # text states and pictures of running images, beside the transformer
    vae_max_batch_size: int = 8
    vae_dtype: str = "float32"
    vae_threads: int = os.cpu_count() or 1
    text_encoder_max_batch_size: int = 16
    text_encoder_cache_bytes: int = 64 * MIB
    text_encoder_dtype: str = "float32"
    text_encoder_max_num_seqs: int = 32
    text_encoder_kv_cache_bytes: int = 256 * MIB
    text_encoder_gpu_memory_utilization: float = (
        0.3  # vLLM asks for this much free memory; the transformer has the rest
    )
    text_encoder_enforce_eager: str = "true"
    max_images_in_flight: int = 16
    max_images_waiting: int = 64
    tokens_per_call: int = 1  # steps of one call x image tokens, references counted; one step at least
    tokens_per_call_alone: int = 1  # the same, while no other image is in flight
    watchdog: str = "on"  # end the server when a model's process died: whoever started it starts it again

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise RenderError(f"{name}={getattr(self, name)!r} must be one of {', '.join(allowed)}")

        if self.device == "cuda" and self.dit_instances > 1:
            raise RenderError(
                f"dit_instances={self.dit_instances} must be 1 on a GPU, where a second would hold the weights again "
                "and take turns with the first. A server serves one GPU: start one for each"
            )

    @property
    def needs_engines(self) -> bool:
        return self.engine != "torch"

    @property
    def has_vae_plans(self) -> bool:
        """Whether the VAE runs on Triton's TensorRT backend, which does not load TensorRT-RTX's engines.

        A plan holds the weights it was built from, so random ones have none.
        """
        return self.engine == "tensorrt" and self.load_format.reads_files


@dataclass(frozen=True, slots=True)
class GpuSettings(Settings):
    """One GPU of 80 GB: bfloat16, the blocks and the VAE compiled by TensorRT."""

    device: str = "cuda"
    kind: str = "KIND_GPU"
    niceness: int = 0
    engine: str = "tensorrt"
    precision: Precision = Precision.BF16
    dit_threads: int = 4
    max_batch_tokens: int = 32_768  # a guided image of 2048 x 2048, or four of 1024 x 1024
    conditioning_store_bytes: int = 1 * GIB
    vae_dtype: str = "bfloat16"
    vae_threads: int = 4
    text_encoder_cache_bytes: int = 1 * GIB
    text_encoder_dtype: str = "bfloat16"
    text_encoder_kv_cache_bytes: int = 512 * MIB  # 9,362 tokens of Qwen2.5-VL 7B
    text_encoder_enforce_eager: str = "false"
    tokens_per_call: int = 4096  # one step at 1024 x 1024, four at 512 x 512
    tokens_per_call_alone: int = 8192  # two, eight


PROFILES: dict[str, type[Settings]] = {"cpu": Settings, "gpu": GpuSettings}
