"""The shapes that engines are compiled for: one table, read by the build, the renderer and the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from qwen_image.errors import EngineError, InvalidRequest

PIXELS_PER_TOKEN = 16 * 16
MAX_TEXT_TOKENS = 1024  # of a family whose text states are those of a prompt alone


class Span(NamedTuple):
    """The smallest, the usual (kernels are chosen for it) and the largest value of a dimension."""

    least: int
    usual: int
    most: int

    def holds(self, value: int) -> bool:
        return self.least <= value <= self.most


@dataclass(frozen=True, slots=True)
class BlockProfile:
    """Shapes that one optimisation profile of the block engine holds. `rows` counts both guidance branches."""

    name: str
    rows: Span
    image_tokens: Span
    text_tokens: Span

    def shapes(self, dim: int, head_dim: int, *, zero_cond_t: bool = False) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Each data input's smallest, usual and largest shape."""
        points = list(zip(self.rows, self.image_tokens, self.text_tokens, strict=True))
        shapes = {
            "image": tuple((rows, image, dim) for rows, image, _ in points),
            "text": tuple((rows, text, dim) for rows, _, text in points),
            "text_mask": tuple((rows, text) for rows, _, text in points),
            "temb": tuple((rows, dim) for rows, _, _ in points),
            "image_rotary": tuple((2, image, head_dim // 2) for _, image, _ in points),
            "text_rotary": tuple((2, text, head_dim // 2) for _, _, text in points),
        }
        if zero_cond_t:
            shapes["reference_temb"] = shapes["temb"]
            shapes["is_reference"] = tuple((image,) for _, image, _ in points)
        return shapes


def _profile(name: str, usual_pixels: int, most_pixels: int, most_rows: int) -> BlockProfile:
    return BlockProfile(
        name,
        rows=Span(1, 2, most_rows),
        image_tokens=Span(16, usual_pixels // PIXELS_PER_TOKEN, most_pixels // PIXELS_PER_TOKEN),
        text_tokens=Span(1, 128, MAX_TEXT_TOKENS),
    )


# Smallest first: a call takes the first that holds it. Most rows: about as many tokens in all, so as much memory.
BLOCK_PROFILES = (
    _profile("512", 512 * 512, 512 * 512, 32),
    _profile("1024", 1024 * 1024, 1024 * 1024, 8),
    _profile("1328", 1328 * 1328, 1344 * 1344, 4),  # and 1664 x 928, 1472 x 1104, 1584 x 1056
    _profile("2048", 2048 * 2048, 2048 * 2200, 2),
)


VAE_SIDE = Span(64, 1328, 2048)  # pixels a side of the pictures that the VAE's engines hold, one at a time


def named(names: Sequence[str]) -> tuple[BlockProfile, ...]:
    """Profiles of the table by name. EngineError for a name that is not in it."""
    known = {profile.name: profile for profile in BLOCK_PROFILES}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise EngineError(f"no profile {', '.join(unknown) or 'at all'}; the table has {', '.join(known)}")
    return tuple(profile for name, profile in known.items() if name in names)


def with_text(profiles: Sequence[BlockProfile], max_text_tokens: int) -> tuple[BlockProfile, ...]:
    """The same for a family's texts: an edit's are longer, since the pictures are read with the prompt."""
    return tuple(replace(each, text_tokens=each.text_tokens._replace(most=max_text_tokens)) for each in profiles)


def chosen(profiles: Sequence[BlockProfile], rows: int, image_tokens: int, text_tokens: int) -> int:
    """The position of the first profile that holds a call. InvalidRequest with what would be held."""
    for position, profile in enumerate(profiles):
        if (
            profile.rows.holds(rows)
            and profile.image_tokens.holds(image_tokens)
            and profile.text_tokens.holds(text_tokens)
        ):
            return position
    raise InvalidRequest(
        f"{rows} rows of {image_tokens} image tokens and {text_tokens} text tokens fit no engine profile; there are "
        + "; ".join(_ranges(profile) for profile in profiles)
    )


def max_rows(profiles: Sequence[BlockProfile], image_tokens: int) -> int:
    """How many rows of that many image tokens one call may have; 0 if no profile holds them."""
    return max((each.rows.most for each in profiles if each.image_tokens.holds(image_tokens)), default=0)


def check_covered(
    profiles: Sequence[BlockProfile], *, image_tokens: tuple[int, int], max_text_tokens: int, rows: int = 2
) -> None:
    """EngineError unless every picture size and prompt length that requests may have is held."""
    least, most = image_tokens
    beyond_each = {each.image_tokens.most + 1 for each in profiles if each.image_tokens.most < most}
    for tokens in sorted({least, most} | beyond_each):
        held = [each for each in profiles if each.image_tokens.holds(tokens) and each.rows.most >= rows]
        if not any(each.text_tokens.least == 1 and each.text_tokens.most >= max_text_tokens for each in held):
            raise EngineError(
                f"the engines hold no {rows} rows of {tokens} image tokens ({tokens * PIXELS_PER_TOKEN} pixels) with "
                f"{max_text_tokens} text tokens, which the limits allow; there are "
                + "; ".join(_ranges(each) for each in profiles)
                + ". Set --min-side, --max-side and --max-pixels to what they hold, or build more profiles"
            )


def to_json(profile: BlockProfile) -> dict[str, Any]:
    return asdict(profile)


def from_json(contents: dict[str, Any]) -> BlockProfile:
    """EngineError if it is none."""
    try:
        spans = {name: Span(*contents[name]) for name in ("rows", "image_tokens", "text_tokens")}
        return BlockProfile(contents["name"], **spans)
    except (KeyError, TypeError) as error:
        raise EngineError(f"{contents!r} is no engine profile: {error}") from error


def _ranges(profile: BlockProfile) -> str:
    return (
        f"{profile.name} ({profile.rows.least} to {profile.rows.most} rows, {profile.image_tokens.least} to "
        f"{profile.image_tokens.most} image tokens, {profile.text_tokens.least} to {profile.text_tokens.most} text)"
    )
