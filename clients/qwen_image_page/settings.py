"""The page's settings."""

from __future__ import annotations

from dataclasses import dataclass

from qwen_image_client.integration import DEFAULT_GUIDANCE, Address, OnOff
from qwen_image_contract import Limits

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
        max_event_bytes: of what a browser sends with one click.
        max_visitors, max_visitor_sessions: browsers at one time, and tabs of one.
        max_visitor_files, max_visitor_bytes: uploads kept of one visitor; the oldest go first.
        max_visitor_uploads_at_once: that are on their way.
        max_uploaded_bytes: uploads kept of all visitors; one beyond it is refused.
        body_timeout_s: how long a click or an upload may take to come.
        heartbeat_wait_s: how long a request waits for its tab to be known.
        leave_s: after which a visitor's uploads go, once its last tab was closed.
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
    max_event_bytes: int = 256 * 1024
    max_visitors: int = 64
    max_visitor_sessions: int = 16
    max_visitor_files: int = 256
    max_visitor_bytes: int = 256 * 1024**2
    max_visitor_uploads_at_once: int = 8
    max_uploaded_bytes: int = 2 * 1024**3
    body_timeout_s: float = 60.0
    heartbeat_wait_s: float = 5.0
    leave_s: float = 60.0
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
