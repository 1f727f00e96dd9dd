"""Qwen2.5-VL as a text encoder on vLLM: token ids to the states of every token.

vLLM's pooling runner with the task `token_embed`, all tokens and no activation gives the last hidden states after the
final norm: what diffusers takes as `hidden_states[-1]`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint
from qwen_image.states_cache import StatesCache
from qwen_image.tokenization import PromptTokenizer

ENGINE_KEYS_WE_SET = frozenset({"runner", "pooler_config", "enable_prefix_caching"})


class TextEncoder:
    """One vLLM engine in this process."""

    def __init__(self, checkpoint: Checkpoint, engine_arguments: Mapping[str, Any], cache_bytes: int) -> None:
        """`engine_arguments` are vLLM's own (1/model.json); those that token states depend on are set here."""
        self.cache = StatesCache(cache_bytes)
        taken = ENGINE_KEYS_WE_SET & engine_arguments.keys()
        if taken:
            raise ValueError(f"model.json must not set {', '.join(sorted(taken))}: token states depend on them")
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine stays in this process
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        from vllm import LLM
        from vllm.config import PoolerConfig

        self.tokenize = PromptTokenizer.load(checkpoint)
        self._engine = LLM(
            **{
                "model": str(checkpoint.folder / "text_encoder"),
                "tokenizer": str(checkpoint.folder / "tokenizer"),
                **engine_arguments,
            },
            runner="pooling",
            pooler_config=PoolerConfig(task="token_embed", tok_pooling_type="ALL", use_activation=False),
            enable_prefix_caching=False,  # reused prefixes come back without their states
        )
        self.encode([self.tokenize("prompt", "warm up")])

    def encode(self, prompts: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Token ids of whole templates -> the prompt tokens' states, each (tokens - template_tokens, dim) float32."""
        return self.cache.get_all(prompts, self._encode)

    def _encode(self, prompts: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        tokens: list[Any] = [{"prompt_token_ids": list(token_ids)} for token_ids in prompts]
        outputs = self._engine.encode(tokens, pooling_task="token_embed", use_tqdm=False)
        drop = self.tokenize.family.template_tokens
        return [output.outputs.data.float().numpy()[drop:].copy() for output in outputs]
