"""What the models behind the ensembles take: requests that this server's own models let through.

Triton lets every client call every model. So the validator gives each row a grant, which ensembles pass on: what the
row may cost, and a message authentication code of it under a secret of this server's run. The validator can be called
directly too; whoever gets a grant from it can do no more than the ensemble would do. Calls from model to model, which
no client sees, carry a grant without limits.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from qwen_image.errors import InvalidRequest

SECRET_NAME = "secret"  # in the folder that a server's processes share
SECRET_BYTES = 32
ONLY_FROM_INSIDE = (
    "this model takes requests from the server's own models alone: send yours to qwen_image or qwen_image_stream, with "
    "an edit checkpoint to qwen_image_edit or qwen_image_edit_stream; qwen_image_cancel cancels them"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What time and memory of one row depend on, as the validator allowed it."""

    height: int  # pixels
    width: int
    num_inference_steps: int
    first_step: int
    picture_bytes: int  # of the decoded pictures that the VAE reads


_COST = struct.Struct("<5Q")


class Grants:
    """Makes and checks the grants of one server."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.unlimited = self._code(b"")  # for calls from model to model

    @classmethod
    def in_folder(cls, folder: Path) -> Grants:
        """With the secret of the server whose processes share `folder`, made by the first who asks."""
        path, mine = folder / SECRET_NAME, folder / f"{SECRET_NAME}-{secrets.token_hex(8)}"
        mine.touch(mode=0o600)
        mine.write_bytes(secrets.token_bytes(SECRET_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(mine)
        mine.unlink()
        return cls(path.read_bytes())

    def issue(self, cost: Cost) -> bytes:
        """A grant for a row of this cost."""
        record = _COST.pack(*astuple(cost))
        return self._code(record) + record

    def check(self, grant: bytes) -> Cost | None:
        """What the grant allows; None: anything. InvalidRequest unless it was made with this secret."""
        if hmac.compare_digest(grant, self.unlimited):
            return None
        code, record = grant[: len(self.unlimited)], grant[len(self.unlimited) :]
        if len(record) != _COST.size or not hmac.compare_digest(code, self._code(record)):
            raise InvalidRequest(ONLY_FROM_INSIDE)
        return Cost(*_COST.unpack(record))

    def _code(self, record: bytes) -> bytes:
        return hmac.digest(self._secret, record, "sha256")
