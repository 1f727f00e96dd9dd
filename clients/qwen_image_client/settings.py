"""What both clients are made with, and the client's own time limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qwen_image_client.address import Address, Protocol
from qwen_image_client.call import Models, Task
from qwen_image_client.deadline import Deadline
from qwen_image_client.retry import RetryPolicy
from qwen_image_client.transport import Connection

DEFAULT_TIMEOUT_S = 600.0
DEFAULT_RETRIES = RetryPolicy().retries
CANCEL_TIMEOUT_S = 5.0  # for ending work on the way out: the caller is waiting to leave
PROBE_TIMEOUT_S = 5.0
PROBE_INTERVAL_S = 0.5
TASKS: tuple[Task, ...] = ("generate", "edit")


@dataclass(frozen=True, slots=True)
class Settings:
    """A client's settings, read and checked.

    Attributes:
        timeout_s: the limit of a call that gives none of its own; None is no limit.
    """

    connection: Connection
    models: Models
    retry: RetryPolicy
    timeout_s: float | None

    @classmethod
    def read(
        cls,
        url: str,
        *,
        protocol: Protocol | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        model: str = Models().generate,
        headers: Mapping[str, str] | None = None,
        root_certificates: str | Path | None = None,
    ) -> "Settings":
        """The settings that a client's arguments mean; `ClientOptions` tells of each.

        Raises:
            InvalidRequest: one of them can't be used.
        """
        certificates = None if root_certificates is None else Path(root_certificates)
        connection = Connection(Address.parse(url, protocol), headers or {}, certificates)
        Deadline.after(timeout_s)
        return cls(connection, Models(model), RetryPolicy(retries), timeout_s)

    def deadline(self, timeout_s: float | None) -> Deadline:
        """The deadline of a call that starts now; None takes the client's own limit."""
        return Deadline.after(self.timeout_s if timeout_s is None else timeout_s)

    @property
    def has_previews(self) -> bool:
        return self.connection.address.protocol == "grpc"

    @property
    def where(self) -> str:
        """The server and its model, for messages."""
        return f"{self.models.generate} on {self.connection.address.host_and_port}"
