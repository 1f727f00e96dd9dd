"""Pictures as the text encoder reads them: told apart by content, and how many tokens each becomes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest

if TYPE_CHECKING:
    from qwen_image.checkpoint import Checkpoint
    from qwen_image.families import Edit

MOST_RATIO = 200  # of sides; Qwen2-VL's preprocessor raises beyond


@dataclass(frozen=True, slots=True, eq=False)
class ConditionPicture:
    """One picture of the size that the checkpoint's `condition_area` gives it."""

    pixels: NDArray[np.uint8]  # (H, W, 3)
    digest: str  # equal for equal pixels

    @classmethod
    def of(cls, pixels: NDArray[np.uint8]) -> ConditionPicture:
        content = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
        content.update(np.ascontiguousarray(pixels).data)
        return cls(pixels, content.hexdigest())


@dataclass(frozen=True, slots=True)
class ConditionTokens:
    """The checkpoint's own preprocessor asked for numbers. It brings sides to whole tokens, 28 pixels each."""

    processor: Any
    edit: Edit

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> ConditionTokens | None:
        """None unless the family edits."""
        if checkpoint.edit is None:
            return None
        from transformers import AutoImageProcessor

        folder = checkpoint.folder / "processor"
        return cls(AutoImageProcessor.from_pretrained(folder), checkpoint.edit)  # type: ignore[no-untyped-call]

    @property
    def side(self) -> int:
        """Pixels a token covers, per side."""
        return int(self.processor.patch_size * self.processor.merge_size)

    @property
    def most(self) -> int:
        """No picture fitted to `condition_area` has more."""
        return self.edit.max_condition_tokens(self.side)

    @property
    def pixel_range(self) -> dict[str, int]:
        """The preprocessor's own least pixels, and the most that `most` tokens have: what vLLM makes room for."""
        return {"min_pixels": self.processor.size["shortest_edge"], "max_pixels": self.most * self.side**2}

    def blank(self) -> ConditionPicture:
        """A black square of the usual size."""
        side = math.isqrt(self.edit.condition_area)
        return ConditionPicture.of(np.zeros((side, side, 3), np.uint8))

    def check(self, name: str, picture: ConditionPicture) -> None:
        """InvalidRequest for what the preprocessor would refuse, or would make larger than there is room for."""
        height, width, _ = picture.pixels.shape
        tokens = round(height / self.side) * round(width / self.side)
        if tokens > self.most or max(height, width) > MOST_RATIO * min(height, width):
            raise InvalidRequest(
                f"{name} is {width}x{height}; at most {self.most} tokens of {self.side}x{self.side} are allowed, and "
                f"sides in a ratio of {MOST_RATIO}: fit it to {self.edit.condition_area} pixels"
            )
