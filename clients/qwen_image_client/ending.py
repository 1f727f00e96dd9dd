"""When leaving a call must end its work on the server, and what the error then says about it."""

import logging

from qwen_image_client.errors import QwenImageClientError

_log = logging.getLogger("qwen_image_client")


def leaves_work_behind(error: BaseException) -> bool:
    """Whether the server may still be working: the caller left (Ctrl-C, a closed iterator, a cancelled task)
    or the answer never came."""
    return error.work_may_continue if isinstance(error, QwenImageClientError) else True


def note_ended(reason: BaseException, num_images: int) -> None:
    """Tells whoever reads `reason` that the server's work is over."""
    reason.add_note(f"ended on the server: {num_images} image{'' if num_images == 1 else 's'}")


def note_not_ended(reason: BaseException, request_id: str, error: QwenImageClientError) -> None:
    """Tells whoever reads `reason`, and the log, that the server may still be working."""
    reason.add_note(f"not ended on the server: {error.message}")
    _log.warning("request %s may still run on the server: %s", request_id, error.message)
