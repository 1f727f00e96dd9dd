"""The page's messages as HTML: progress, errors, recipes. Whatever comes from outside is escaped."""

from __future__ import annotations

from html import escape

from qwen_image_client import (
    Cancelled,
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    Recipe,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
)
from qwen_image_page.server_info import ServerInfo
from qwen_image_page.sizes import TIMES, Size

_BUSY = "The server takes no more pictures just now. Try again in a moment."
_UNREACHABLE = "The server can't be reached. What you typed is still here: try again when it is back."


def status_line(text: str, *, part: float | None = None, kind: str = "calm") -> str:
    """A line under the image; `part` fills its progress bar, of 1."""
    bar = "" if part is None else f'<div class="bar"><div style="width:{100 * part:.1f}%"></div></div>'
    return f'<div class="status {kind}" role="status">{bar}<span>{escape(text)}</span></div>'


def waiting_status(requests: int) -> str:
    """Before a request's first step; `requests` wait behind the one in progress."""
    return status_line(f"{requests} waiting" if requests else "Waiting for the first step", part=0)


def progress_status(step: int, steps: int, requests: int) -> str:
    """After a step; `requests` wait behind this one."""
    more = f" · {requests} waiting" if requests else ""
    return status_line(f"Step {step} of {steps}{more}", part=step / max(steps, 1))


def stopped_status(step: int, steps: int) -> str:
    return status_line(f"Stopped at step {step} of {steps}.")


def finished_status(num_images: int, seconds: float) -> str:
    images = "1 picture" if num_images == 1 else f"{num_images} pictures"
    return status_line(f"{images} in {seconds:.1f} s")


def error_message(error: QwenImageClientError | OSError) -> str:
    """The message for the user; the server's own where it helps."""
    if isinstance(error, ServerUnreachable):
        return _UNREACHABLE
    if isinstance(error, ServerUnavailable):
        return f"{_BUSY} ({error.message})"
    if isinstance(error, Cancelled):
        return "Somebody ended this picture by its request id."
    if isinstance(error, ConnectionLost):
        return "The connection to the server broke. What you typed is still here: try again."
    if isinstance(error, Timeout):
        return "The picture took too long and was ended. Ask for fewer steps, a smaller size or fewer pictures."
    if isinstance(error, InvalidRequest):
        return error.message
    return f"The server failed: {error}"


def recipe_card(recipe: Recipe) -> str:
    """What an image was generated from."""
    entries = {
        "Negative prompt": recipe.negative_prompt,
        "Seed": recipe.seed,
        "Size": f"{recipe.width}{TIMES}{recipe.height}",
        "Steps": recipe.num_inference_steps,
        "Guidance": "off" if recipe.true_cfg_scale <= 1 else f"{recipe.true_cfg_scale:g}",
        "Strength": recipe.strength,
        "From pictures": len(recipe.image_sha256) or None,
        "Mask": "yes" if recipe.mask_sha256 else None,
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in entries.items()
        if value is not None and str(value).strip()
    )
    return f'<div class="recipe"><p>{escape(recipe.prompt)}</p><dl>{rows}</dl></div>'


def server_line(info: ServerInfo) -> str:
    """One line about the server."""
    what = "edits pictures" if info.edits else "paints from text and from pictures"
    return f'<div class="served">{what} · {Size(info.width, info.height).label} by default</div>'


def unavailable_banner(url: str, every_s: float) -> str:
    return (
        '<div class="away" role="alert"><strong>The server is not ready yet.</strong> '
        f"No answer from {escape(url)}. This page asks again every {every_s:g} s.</div>"
    )
