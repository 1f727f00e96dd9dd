"""The errors of the core. Each says what arrived, what is allowed and what to do.

QwenImageError
├── InvalidRequest      the caller can mend it
├── Unavailable         try again later
├── Cancelled           the caller ended it
├── NotHeld             the transformer's side wants the text states again
├── NotFinite           a model computed NaN or infinity: weights or a precision are to blame
├── CheckpointError     the checkpoint can't be served as it is
├── ServerFailed        tritonserver did not start or died
├── EngineError         a compiled engine does not fit: build it again
└── RenderError         a model repository can't be rendered
"""


class QwenImageError(Exception):
    """Anything this project raises on purpose."""


class InvalidRequest(QwenImageError):  # noqa: N818 - named as the status it becomes
    """The request names a value that is not allowed: INVALID_ARGUMENT."""


class Unavailable(QwenImageError):  # noqa: N818
    """There is no room or no time for the request now: UNAVAILABLE."""


class Cancelled(QwenImageError):  # noqa: N818
    """The request was ended by its id: CANCELLED."""


class NotHeld(QwenImageError):  # noqa: N818
    """Text states that a call refers to are not in this process: NOT_FOUND, and the sampler sends them again."""


class NotFinite(QwenImageError):  # noqa: N818
    """A model computed values that are NaN or infinite: INTERNAL. Computing them again does not help."""


class CheckpointError(QwenImageError):
    """A checkpoint that is incomplete, of another class, or of other shapes than its configuration says."""


class ServerFailed(QwenImageError):  # noqa: N818
    """The tritonserver process could not start, or ended before it was ready."""


class EngineError(QwenImageError):
    """A compiled engine that is missing, does not fit what is asked of it, or was made for something else."""


class RenderError(QwenImageError):
    """A template and its values do not fit together, or the output is in the way."""
