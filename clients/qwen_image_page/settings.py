"""The page's settings."""

from __future__ import annotations

from dataclasses import dataclass

from qwen_image_client.integration import DEFAULT_GUIDANCE, Address, OnOff
from qwen_image_contract import Limits

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The settings of one page.

    Attributes:
        url: Triton's gRPC address, host:port or grpcs://host:port.
        default_guidance: whether guidance is ticked when the page is opened.
        path: where the page is mounted in the application.
        previews: at most, of one image; decoding each takes the server time.
        preview_side: of a preview, in pixels.
        max_gallery_items: images that a session keeps; the oldest are removed first.
        max_file_bytes: of one upload; by default the server's own limit.
        max_waiting: requests of one session behind the one in progress.
        max_events: in gradio's queue, over all sessions; Triton has its own limit of waiting images.
        max_event_bytes: of the body of one event.
        max_visitors, max_visitor_sessions: browsers at one time, and tabs of one.
        max_visitor_files, max_visitor_bytes: uploads kept of one visitor; the oldest are removed first.
        max_visitor_uploads_at_once: being received.
        max_uploaded_bytes: of the uploads kept of all visitors; one more is refused.
        body_timeout_s: for the browser to send an event or an upload.
        heartbeat_wait_s: for which a request waits for the heartbeat of its tab.
        leave_s: after which a visitor's uploads are removed, once its last tab was closed.
        file_age_s, sweep_s: after which a file is removed even if its session is open, and how often that is checked.
    """

    url: str
    default_guidance: OnOff = DEFAULT_GUIDANCE
    path: str = "/page"
    previews: int = 12
    preview_side: int = 768
    max_gallery_items: int = 48
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
        """The url, parsed.

        Raises:
            InvalidRequest: it can't be parsed, or is for HTTP, which has no streams.
        """
        return Address.parse(self.url, "grpc")

    def preview_every(self, num_inference_steps: int) -> int:
        """Steps from one preview to the next."""
        return max(1, -(-num_inference_steps // self.previews))
