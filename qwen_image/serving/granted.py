"""The `grant` tensor of a request to a model behind the ensembles: read and checked before anything else is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest
from qwen_image.request.cancellation import sockets_folder
from qwen_image.request.grants import ONLY_FROM_INSIDE, Cost, Grants
from qwen_image.serving.tensors import optional_array

GRANT = "grant"  # BYTES [1] a row


def grants_of_this_server() -> Grants:
    return Grants.in_folder(sockets_folder())


def checked_costs(request: Any, grants: Grants) -> list[Cost | None]:
    """What each row may cost; None: anything. InvalidRequest for a request that no model of this server let through."""
    column = optional_array(request, GRANT)
    if column is None:
        raise InvalidRequest(ONLY_FROM_INSIDE)
    return [grants.check(bytes(grant)) for grant in column.reshape(-1)]


def check_is_from_model(request: Any, grants: Grants) -> None:
    """InvalidRequest for a request that comes from no model of this server: a grant with limits is not enough."""
    if any(cost is not None for cost in checked_costs(request, grants)):
        raise InvalidRequest(ONLY_FROM_INSIDE)


def grant_column(grants: Iterable[bytes]) -> NDArray[np.object_]:
    """(B, 1)."""
    return np.array([[grant] for grant in grants], np.object_)
