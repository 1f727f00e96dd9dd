"""Settings of a rendered repository: one set of defaults for a machine without a GPU, one for a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

from qwen_image.checkpoint import LoadFormat
from qwen_image.dit.precision import Precision
from qwen_image.engines.library import ENGINES
from qwen_image.errors import RenderError
from qwen_image_contract.setting import setting

MIB, GIB = 1024**2, 1024**3
SHORTEST_HANG_S = 5.0
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

    max_rows: int = setting(8, "images of one request")
    load_format: LoadFormat = setting(
        LoadFormat.AUTO, "dummy: random weights of the checkpoint's dimensions, made on the device; no files are read"
    )
    device: str = setting("cpu", "where the models compute")
    kind: str = setting("KIND_CPU", "Triton's word for it, of the models that compute")
    validator_instances: int = setting(2, "processes that decode the images of requests")
    niceness: int = setting(10, "of the processes that compute: on a CPU they give way to those that answer")
    engine: str = setting("torch", "what runs the transformer's blocks; all but torch need engines")
    precision: Precision = setting(Precision.FP32, "of the transformer")
    dit_max_batch_size: int = setting(8, "images of one transformer call")
    dit_instances: int = setting(1, "processes with a transformer each; one on a GPU")
    dit_threads: int = setting(os.cpu_count() or 1, "threads of the transformer on a CPU")
    max_batch_tokens: int = setting(
        65_536, "image tokens of one transformer call with --engine torch, both guidance branches counted"
    )
    conditioning_store_bytes: int = setting(
        1 * GIB, "held beside the transformer: prompts and images of the requests in flight"
    )
    vae_max_batch_size: int = setting(8, "images of one VAE call")
    vae_dtype: str = setting("float32", "of the VAE's weights")
    vae_threads: int = setting(os.cpu_count() or 1, "threads of the VAE on a CPU")
    text_encoder_max_batch_size: int = setting(16, "prompts of one text encoder call")
    text_encoder_cache_bytes: int = setting(64 * MIB, "of prompts' embeddings kept for requests that repeat them")
    text_encoder_dtype: str = setting("float32", "of the text encoder's weights")
    text_encoder_max_num_seqs: int = setting(32, "prompts that vLLM runs at once")
    text_encoder_kv_cache_bytes: int = setting(256 * MIB, "vLLM's cache of keys and values")
    text_encoder_gpu_memory_utilization: float = setting(
        0.3, "part of the GPU's memory that must be free when vLLM starts; the transformer has the rest"
    )
    text_encoder_enforce_eager: str = setting("true", "true: vLLM records no CUDA graphs")
    max_images_in_flight: int = setting(16, "images generated at one time, of each of the two samplers")
    max_images_waiting: int = setting(64, "images that wait behind them; more are refused")
    tokens_per_call: int = setting(
        1, "image tokens of one transformer call of one image: as many steps as fit, at least one"
    )
    tokens_per_call_alone: int = setting(1, "the same, while no other image is in flight")
    watchdog: str = setting(
        "on", "on: end the server when a model's process has died or hangs, so that it is started again"
    )
    watchdog_hangs_after_s: float = setting(
        30.0, "without a sign of life from a model's process; a busy machine may keep one waiting for some"
    )

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise RenderError(f"{name}={getattr(self, name)!r} must be one of {', '.join(allowed)}")
        if not self.watchdog_hangs_after_s >= SHORTEST_HANG_S:
            raise RenderError(
                f"watchdog_hangs_after_s={self.watchdog_hangs_after_s} must be at least {SHORTEST_HANG_S}: a process "
                "gives a sign of life every second"
            )
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
