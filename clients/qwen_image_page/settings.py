"""The page's settings."""

from __future__ import annotations

from dataclasses import dataclass

from qwen_image.params import Limits
from qwen_image_client.address import Address
from qwen_image_client.guidance import DEFAULT_GUIDANCE, OnOff

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class PageSettings:
    """One page's.

    Attributes:
        url: Triton's gRPC address, host:port or grpcs://host:port.
        default_guidance: whether guidance is ticked when the page is opened.
        path: where the page is mounted in the application.
        previews: pictures shown on the way to one, at most; decoding each takes the server time.
        preview_side: of a preview, in pixels.
        max_shots: pictures a session keeps; the oldest go first.
        max_file_bytes: of one uploaded picture; the server's own limit is the same unless it was rendered with another.
        max_waiting: requests of one session behind the one in progress.
        max_events: waiting for the page itself, over all sessions; how many pictures wait is Triton's to say.
        file_age_s, sweep_s: after which a file is removed even if its session is still open, and how often one looks.
    """

    url: str
    default_guidance: OnOff = DEFAULT_GUIDANCE
    path: str = "/page"
    previews: int = 12
    preview_side: int = 768
    max_shots: int = 48
    max_file_bytes: int = Limits().max_image_bytes
    max_waiting: int = 8
    max_events: int = 1000
    file_age_s: int = 24 * HOUR_S
    sweep_s: int = HOUR_S

    @property
    def address(self) -> Address:
        """The url, read.

        Raises:
            InvalidRequest: it can't be, or is one for HTTP, which has no streams.
        """
        return Address.parse(self.url, "grpc")

    def preview_every(self, num_inference_steps: int) -> int:
        """Steps from one preview to the next."""
        return max(1, -(-num_inference_steps // self.previews))
