"""Qwen2.5-VL as a text encoder on vLLM: token ids and pictures to the states of every token.

vLLM's pooling runner with the task `token_embed`, all tokens and no activation gives the last hidden states after the
final norm: what diffusers takes as `hidden_states[-1]`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.checkpoint.weight_checks import check_weights
from qwen_image.text.condition_images import ConditionPicture, ConditionTokens
from qwen_image.text.embeds_cache import StatesCache
from qwen_image.text.encoder_files import encoder_folder
from qwen_image.text.tokenizer import PromptTokenizer

ENGINE_KEYS_WE_SET = frozenset(
    {"model", "tokenizer", "runner", "pooler_config", "enable_prefix_caching", "max_model_len"}
    | {"limit_mm_per_prompt", "mm_processor_kwargs", "mm_processor_cache_gb"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A whole template's token ids, with one <|image_pad|> a picture."""

    token_ids: tuple[int, ...]
    pictures: tuple[ConditionPicture, ...] = ()

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Equal for prompts of equal states. It holds no pixels."""
        return self.token_ids, tuple(picture.digest for picture in self.pictures)


class TextEncoder:
    """One vLLM engine in this process."""

    def __init__(self, checkpoint: Checkpoint, engine_arguments: Mapping[str, Any], cache_bytes: int) -> None:
        """`engine_arguments` are vLLM's own (1/model.json); those that follow from the checkpoint are set here."""
        self.cache: StatesCache[Prompt] = StatesCache(cache_bytes)
        taken = ENGINE_KEYS_WE_SET & engine_arguments.keys()
        if taken:
            raise ValueError(f"model.json must not set {', '.join(sorted(taken))}: the checkpoint decides on them")
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine stays in this process
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # nothing is sampled here
        from vllm import LLM, envs
        from vllm.config import PoolerConfig

        self._tokenize = PromptTokenizer.load(checkpoint)
        self._condition_tokens = ConditionTokens.load(checkpoint)
        reads_files = engine_arguments.get("load_format") != LoadFormat.DUMMY
        if reads_files:
            check_weights(checkpoint, ["text_encoder"])
        cache = Path(envs.VLLM_CACHE_ROOT) / "qwen_image"
        folder = str(encoder_folder(checkpoint, cache, with_weights=reads_files))
        self._engine = LLM(
            **{"model": folder, "tokenizer": folder, **engine_arguments, **self._room()},
            runner="pooling",
            pooler_config=PoolerConfig(task="token_embed", tok_pooling_type="ALL", use_activation=False),
            enable_prefix_caching=False,  # reused prefixes come back without their states
        )
        self.encode(self._warm_up())

    def prompt(self, name: str, text: str, pictures: Sequence[ConditionPicture] = ()) -> Prompt:
        """What `encode` takes. InvalidRequest says what is wrong with the text, which came as `name`, or a picture."""
        token_ids = self._tokenize(name, text, len(pictures))
        for position, picture in enumerate(pictures):
            assert self._condition_tokens is not None  # the tokenizer had refused
            self._condition_tokens.check(f"picture {position} of {name}", picture)
        return Prompt(tuple(token_ids), tuple(pictures))

    def encode(self, prompts: Sequence[Prompt]) -> list[NDArray[np.float32]]:
        """States of all but the template's first tokens, each (tokens - template_tokens, dim) float32.

        A picture's <|image_pad|> has become its tokens.
        """
        return self.cache.get_all(prompts, self._encode)

    def _encode(self, prompts: Sequence[Prompt]) -> list[NDArray[np.float32]]:
        inputs: list[Any] = [_engine_input(prompt) for prompt in prompts]
        outputs = self._engine.encode(inputs, pooling_task="token_embed", use_tqdm=False)
        drop = self._tokenize.template_tokens
        return [output.outputs.data.float().numpy()[drop:].copy() for output in outputs]

    def _room(self) -> dict[str, Any]:
        """vLLM's arguments for the longest prompt with the most and largest pictures."""
        longest, pictures = self._tokenize.most_tokens, self._condition_tokens
        if pictures is None:
            return {"max_model_len": longest, "limit_mm_per_prompt": {"image": 0, "video": 0}}
        most_images = pictures.edit.max_images
        return {
            "max_model_len": longest + most_images * (pictures.most - 1),
            "limit_mm_per_prompt": {"image": most_images, "video": 0},
            "mm_processor_kwargs": pictures.pixel_range,  # or it makes room for a picture of 16,384 tokens
            "mm_processor_cache_gb": 0,  # pixels are not worth holding: it still holds pictures' states, and we texts'
        }

    def _warm_up(self) -> list[Prompt]:
        prompts = [self.prompt("prompt", "warm up")]
        if self._condition_tokens is not None:
            prompts.append(self.prompt("prompt", "warm up", [self._condition_tokens.blank()]))
        return prompts


def _engine_input(prompt: Prompt) -> dict[str, Any]:
    given: dict[str, Any] = {"prompt_token_ids": list(prompt.token_ids)}
    if prompt.pictures:
        given["multi_modal_data"] = {"image": [Image.fromarray(picture.pixels) for picture in prompt.pictures]}
        # By these vLLM knows a picture again, so that prompt and negative prompt share its states.
        given["multi_modal_uuids"] = {"image": [picture.digest for picture in prompt.pictures]}
    return given
