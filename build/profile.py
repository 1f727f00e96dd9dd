"""Settings of a rendered repository: one set of defaults for a machine without a GPU, one for a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Profile:
    """Every setting, with its default on a CPU: float32 on the Python backend."""

    max_rows: int = 8  # images in one request
    device: str = "cpu"
    kind: str = "KIND_CPU"  # of the models that compute
    engine: str = "torch"  # of the transformer's blocks: torch, onnxruntime, tensorrt, tensorrt_rtx
    precision: str = "fp32"  # of the transformer: fp32, bf16, fp8
    dit_max_batch_size: int = 8
    dit_instances: int = 1
    dit_threads: int = os.cpu_count() or 1
    max_batch_tokens: int = 65_536  # image tokens of one batch on torch, both guidance branches counted
    prompt_store_bytes: int = 256 * MIB  # text states of running images, held beside the transformer
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
    steps_per_call: int = 1

    @property
    def needs_engines(self) -> bool:
        return self.engine != "torch"

    @property
    def vae_plan(self) -> str:
        """The model of Triton's TensorRT backend that decodes; "": the VAE runs in PyTorch.

        TensorRT-RTX's engines can't be served by that backend.
        """
        return "vae_decoder_plan" if self.engine == "tensorrt" else ""


@dataclass(frozen=True, slots=True)
class CpuProfile(Profile):
    """A machine without a GPU."""


@dataclass(frozen=True, slots=True)
class GpuProfile(Profile):
    """One GPU of 80 GB: bfloat16, the blocks and the VAE compiled by TensorRT."""

    device: str = "cuda"
    kind: str = "KIND_GPU"
    engine: str = "tensorrt"
    precision: str = "bf16"
    dit_threads: int = 4
    prompt_store_bytes: int = 1 * GIB
    vae_dtype: str = "bfloat16"
    vae_threads: int = 4
    text_encoder_cache_bytes: int = 1 * GIB
    text_encoder_dtype: str = "bfloat16"
    text_encoder_kv_cache_bytes: int = 2 * GIB
    text_encoder_enforce_eager: str = "false"


PROFILES: dict[str, type[Profile]] = {"cpu": CpuProfile, "gpu": GpuProfile}
