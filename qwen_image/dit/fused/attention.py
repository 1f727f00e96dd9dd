"""Attention among the tokens of each row, of which the last ones may be padding: nobody looks at those.

On the fastest kernel that is there and takes the rows' lengths as they are. PyTorch's own interface takes only a mask,
which costs a pass over every score.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

HOPPER = (9, 0)


class Attention:
    """For tensors of one device: FlashAttention-3 on Hopper, cuDNN on other GPUs, a mask where neither is installed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._plan = lru_cache(maxsize=None)(self._new_plan)  # a few hundred kilobytes for each shape

    @cached_property
    def kernel(self) -> str:
        """Which one it is: flash-attention-3, cudnn, mask."""
        if self._device.type == "cuda":
            if torch.cuda.get_device_capability(self._device) == HOPPER and flash_attention_3() is not None:
                return "flash-attention-3"
            if importlib.util.find_spec("cudnn") is not None:
                return "cudnn"
            warnings.warn(
                "attention takes a mask, which makes it slower: neither FlashAttention-3 (on Hopper, of vllm) nor "
                "NVIDIA's module cudnn (nvidia-cudnn-frontend) is installed",
                stacklevel=2,
            )
        return "mask"

    def __call__(self, joint: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """`out` (R, N, heads, head_dim), written: joint (3, R, N, heads, head_dim) holds queries, keys and values.

        lengths (R,) int32: how many tokens of a row are real. What is written for the others means nothing; it is
        finite if `joint` and what `out` held before are.
        """
        kernel = self.kernel if joint.dtype is torch.bfloat16 else "mask"
        if kernel == "flash-attention-3":
            _by_flash_attention_3(joint, lengths, out)
        elif kernel == "cudnn":
            self._plan(tuple(joint.shape[1:])).run(joint, lengths, out)
        else:
            out.copy_(_masked(joint, lengths))
        return out

    def _new_plan(self, shape: tuple[int, int, int, int]) -> CudnnPlan:
        return CudnnPlan(shape, self._device)


@lru_cache(maxsize=1)
def flash_attention_3() -> Any:
    """The operator that vLLM's package brings, or None. vLLM itself, which takes seconds to import, is not imported."""
    vllm = importlib.util.find_spec("vllm")
    if vllm is None or not vllm.submodule_search_locations:
        return None
    files = list(Path(vllm.submodule_search_locations[0], "vllm_flash_attn").glob("_vllm_fa3_C*.so"))
    if not files:
        return None
    torch.ops.load_library(files[0])
    return torch.ops._vllm_fa3_C.fwd


def _by_flash_attention_3(joint: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> None:
    query, key, value = joint.unbind(0)
    not_given = None
    flash_attention_3()(
        *(query, key, value),
        *(not_given, not_given, not_given),  # new keys and values, a second query
        out,
        *(not_given, not_given, not_given),  # sequences without padding between them
        *(not_given, lengths),  # queries and keys that count
        *(not_given, not_given),  # longest sequences
        *(not_given, not_given, not_given),  # pages of keys, rows' places, padding on the left
        *(not_given, not_given, not_given),  # rotary positions
        *(not_given, not_given, not_given),  # scales of FP8
        query.shape[-1] ** -0.5,
        False,  # causal
        *(-1, -1, 0.0),  # window, cap of the scores
        True,  # neighbouring pairs are rotated
        not_given,  # scheduling
        1,  # one pass over the keys
        not_given,  # heads packed
        0,  # multiprocessors left free
        not_given,  # sinks
        *(1, 0, not_given),  # this processor's share of the context
    )


class CudnnPlan:
    """cuDNN's attention for rows of one shape, (R, N, heads, head_dim) bfloat16."""

    def __init__(self, shape: tuple[int, int, int, int], device: torch.device) -> None:
        import cudnn

        rows, tokens, heads, head_dim = shape
        self._handle = _handle(device)
        self._graph: Any = cudnn.pygraph(
            io_data_type=cudnn.data_type.BFLOAT16,
            intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT,
            handle=self._handle,
        )
        dims = [rows, heads, tokens, head_dim]
        strides = [tokens * heads * head_dim, head_dim, heads * head_dim, 1]
        self._inputs = [self._graph.tensor(dim=dims, stride=strides, name=name) for name in ("q", "k", "v")]
        self._lengths = [
            self._graph.tensor(dim=[rows, 1, 1, 1], stride=[1] * 4, data_type=cudnn.data_type.INT32, name=name)
            for name in ("query_lengths", "key_lengths")
        ]
        query, key, value = self._inputs
        self._out, _ = self._graph.sdpa(
            q=query,
            k=key,
            v=value,
            generate_stats=False,
            attn_scale=head_dim**-0.5,
            use_padding_mask=True,
            seq_len_q=self._lengths[0],
            seq_len_kv=self._lengths[1],
        )
        self._out.set_output(True).set_dim(dims).set_stride(strides)
        self._graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        self._workspace = torch.empty(self._graph.get_workspace_size(), dtype=torch.uint8, device=device)

    def run(self, joint: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> None:
        import cudnn

        cudnn.set_stream(self._handle, torch.cuda.current_stream(joint.device).cuda_stream)
        given = dict(zip(self._inputs, joint.unbind(0), strict=True))
        given |= dict.fromkeys(self._lengths, lengths) | {self._out: out}
        self._graph.execute(given, self._workspace, handle=self._handle)


@cache
def _handle(device: torch.device) -> Any:
    import cudnn

    with torch.cuda.device(device):
        return cudnn.create_handle()


def _masked(joint: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(R, N, heads, head_dim)."""
    tokens = joint.shape[2]
    mask = torch.arange(tokens, device=joint.device)[None] < lengths[:, None]  # (R, N)
    query, key, value = joint.transpose(2, 3)  # each (R, heads, N, head_dim)
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
    return attended.transpose(1, 2)
