"""The blocks as few, large calls. The mathematics is that of `qwen_image/dit/block.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from qwen_image.dit.fused.attention import Attention
from qwen_image.dit.fused.beside import Beside
from qwen_image.dit.fused.kernels import NO_REFERENCES, norm_modulate, place_heads, quantised_rows
from qwen_image.dit.fused.linear import Linear
from qwen_image.dit.fused.modulations import IMAGE, PER_BLOCK, TEXT
from qwen_image.dit.fused.rows import Rows

Tensors = Mapping[str, torch.Tensor]
FEED_FORWARD_ROWS = 16_384  # at a time: their four times wider layer is the largest tensor of a step


class BlockStream:
    """One stream's weights of a block, and what it computes alone."""

    def __init__(
        self, tensors: Tensors, *, qkv: Sequence[str], out: str, up: str, down: str, norms: tuple[str, str]
    ) -> None:
        self._qkv, self._out = Linear(tensors, qkv), Linear(tensors, [out])
        self._up, self._down = Linear(tensors, [up]), Linear(tensors, [down])
        self._q_norm, self._k_norm = (tensors[f"{name}.weight"] for name in norms)
        self.takes_fp8 = self._qkv.takes_fp8

    def place_heads(self, rows: Rows, rotary: torch.Tensor, joint: torch.Tensor, first: int) -> None:
        """Queries, keys and values of this stream's tokens into `joint` (3, R, N, heads, head_dim) from `first` on."""
        _, batch, _, heads, head_dim = joint.shape
        qkv = self._qkv(rows).view(batch, -1, 3, heads, head_dim)
        place_heads(qkv, self._q_norm, self._k_norm, rotary, joint, first)

    def attention_branch(self, attended: Rows, batch: int) -> torch.Tensor:
        """(R · N, dim) -> (R, N, dim)."""
        branch: torch.Tensor = self._out(attended).unflatten(0, (batch, -1))
        return branch

    def feed_forward_branch(self, rows: Rows, batch: int) -> torch.Tensor:
        """(R · N, dim) -> (R, N, dim)."""
        parts = [
            self._down(self._up.gelu(part, quantise=self._down.takes_fp8)) for part in rows.chunks(FEED_FORWARD_ROWS)
        ]
        branch: torch.Tensor = (parts[0] if len(parts) == 1 else torch.cat(parts)).unflatten(0, (batch, -1))
        return branch


class FusedBlock:
    """One block's weights."""

    def __init__(self, tensors: Tensors) -> None:
        self.image = BlockStream(
            tensors,
            qkv=["attn.to_q", "attn.to_k", "attn.to_v"],
            out="attn.to_out.0",
            up="img_mlp.net.0.proj",
            down="img_mlp.net.2",
            norms=("attn.norm_q", "attn.norm_k"),
        )
        self.text = BlockStream(
            tensors,
            qkv=["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"],
            out="attn.to_add_out",
            up="txt_mlp.net.0.proj",
            down="txt_mlp.net.2",
            norms=("attn.norm_added_q", "attn.norm_added_k"),
        )


@dataclass(slots=True, eq=False)
class Stream:
    """R rows of N tokens on their way through the blocks."""

    tokens: torch.Tensor  # (R, N, dim), changed in place
    rotary: torch.Tensor  # (2, N, head_dim / 2) float32
    modulations: torch.Tensor  # (PER_BLOCK · blocks + 2, R or R + 1, dim), see `modulations.py`
    offset: int  # of this stream's modulations among a block's: IMAGE or TEXT
    first_reference: int = NO_REFERENCES  # tokens from here on are modulated by the last row

    def normed(
        self, index: int, *, quantise: bool, branch: torch.Tensor | None = None, gate: int | None = None
    ) -> Rows:
        """Normed and modulated by shift and scale number `index`, `branch` having been added through gate `gate`."""
        return norm_modulate(
            self.tokens,
            self.modulations[index : index + 2].transpose(0, 1),
            quantise=quantise,
            branch=branch,
            gate=None if gate is None else self.modulations[gate],
            first_reference=self.first_reference,
        )

    def after_attention(self, weights: BlockStream, attended: Rows, block: int, *, quantise_next: bool) -> Rows:
        """The rest of a block; what the next one (or the output's projection) takes."""
        batch, first = self.tokens.shape[0], block * PER_BLOCK + self.offset
        branch = weights.attention_branch(attended, batch)
        rows = self.normed(first + 3, quantise=weights.takes_fp8, branch=branch, gate=first + 2)
        branch = weights.feed_forward_branch(rows, batch)
        following = first + PER_BLOCK
        return self.normed(following, quantise=quantise_next, branch=branch, gate=first + 5)


def run_blocks(
    blocks: Sequence[FusedBlock],
    image: Stream,
    text: Stream,
    joint: torch.Tensor,
    lengths: torch.Tensor,
    attention: Attention,
    beside: Beside,
) -> Rows:
    """The image's tokens after the last block, normed and modulated for the output's projection: (R · L, dim).

    `joint` (3, R, L + T, heads, head_dim) is room for queries, keys and values, of which `lengths` (R,) int32 are real:
    the image's, then the text's. The text's few tokens are bound by reading weights, the image's many by arithmetic:
    they run side by side.
    """
    image_tokens, last = image.tokens.shape[1], len(blocks) - 1
    room = torch.zeros_like(joint[0])
    image_rows = image.normed(IMAGE, quantise=blocks[0].image.takes_fp8)
    text_rows = text.normed(TEXT, quantise=blocks[0].text.takes_fp8)
    for index, block in enumerate(blocks):
        with beside.started():
            block.text.place_heads(text_rows, text.rotary, joint, image_tokens)
        block.image.place_heads(image_rows, image.rotary, joint, 0)
        beside.join()
        attended = _for_linear(attention(joint, lengths, room), fp8=block.image.takes_fp8)
        with beside.started():
            if index < last:  # nobody looks at the text after the last block
                of_text = attended.part(joint.shape[1], image_tokens)
                text_rows = text.after_attention(
                    block.text, of_text, index, quantise_next=blocks[index + 1].text.takes_fp8
                )
        # Of the rows of text in it nothing is read; to leave them out would be a copy.
        image_rows = image.after_attention(
            block.image, attended, index, quantise_next=index < last and blocks[index + 1].image.takes_fp8
        )
        beside.join()
    return image_rows


def _for_linear(attended: torch.Tensor, *, fp8: bool) -> Rows:
    """(R, N, heads, head_dim) -> (R · N, dim)."""
    rows = attended.reshape(-1, attended.shape[-2] * attended.shape[-1])
    return quantised_rows(rows) if fp8 else Rows(rows)
