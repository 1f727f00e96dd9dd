"""The one place that imports Triton's Python backend, which exists only inside its processes."""

from __future__ import annotations

import atexit
import faulthandler
import json
import locale
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from qwen_image.checkpoint import Checkpoint, LoadFormat, open_checkpoint
from qwen_image.errors import Cancelled, CheckpointError, InvalidRequest, NotHeld, QwenImageError, Unavailable
from qwen_image.serving.log_text import escaped, short_id
from qwen_image.serving.orphans import end_with_server

# The stub starts Python with an ASCII locale, under which torch's and vLLM's own files can't be read.
locale.setlocale(locale.LC_ALL, "C.UTF-8")

faulthandler.enable()  # a process that a signal ends says in the log where it was
end_with_server()


def _end_at_once(pid: int) -> None:
    """The rest of Python's end destroys objects of Triton's, which crash then: their stub has gone before."""
    if os.getpid() == pid:  # not a child that inherited this
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


atexit.register(_end_at_once, os.getpid())  # the first to be registered is the last to be called

# Triton fills its module in only after model.py is imported, so names of it are looked up when they are used.
STATUS = {InvalidRequest: "INVALID_ARG", Unavailable: "UNAVAILABLE", Cancelled: "CANCELLED", NotHeld: "NOT_FOUND"}
UNEXPECTED = "the server failed ({kind}); its log has the reason beside the request id"
IN_WORDS = {"INVALID_ARG": "INVALID_ARGUMENT"}  # what gRPC calls a status, where that is another name


def error_response(error: BaseException, request_id: str) -> Any:
    """The response for an error: its own words for ours, the type alone for anybody else's, which may tell of the
    server's inside. The log has all of it, with the id.

    The words end with the status, "... [INVALID_ARGUMENT]": an error in a gRPC stream carries none but in its words.
    """
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), "INTERNAL")
    is_ours, is_expected = isinstance(error, QwenImageError), status != "INTERNAL"
    log = LOG.info if is_expected else LOG.error
    log("[request %s] %s: %s", short_id(request_id), status, error, exc_info=None if is_expected else error)
    message = str(error) if is_ours else UNEXPECTED.format(kind=type(error).__name__)
    words = f"{message} [{IN_WORDS.get(status, status)}]"
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(words, getattr(pb_utils.TritonError, status)))


def give_way(niceness: int) -> None:
    """Take the processor after those who answer requests: this process, and all that it starts from now on.

    Linux may share the processor between sessions first and heed niceness within each of them only (sched(7),
    autogroups). Then the server's whole session gives way.
    """
    os.nice(niceness)
    if niceness:
        with suppress(OSError):  # where there are no autogroups
            Path("/proc/self/autogroup").write_text(str(niceness))


def log_warm(model: str, seconds: float, memory: str = "") -> None:
    """The model has computed once: Triton calls it ready after this line."""
    LOG.info("[%s] warm after %.1f s%s", model, seconds, memory and f"; {memory}", stacklevel=2)


def log_request(request_id: str, message: str, *, level: int = logging.INFO) -> None:
    LOG.log(level, "[request %s] %s", short_id(request_id), message, stacklevel=2)


class _OneLine(logging.Formatter):
    """A record is one line whatever callers sent; of a traceback, which is many, every line is indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).splitlines())


def _standard_error_log() -> logging.Logger:
    """Lines like Triton's, on the standard error that this process shares with the server.

    Triton's own logger sends each line to the server and holds up the process's other messages until it is answered.
    """
    handler = logging.StreamHandler()
    line = "%(levelname).1s%(asctime)s.%(msecs)03d %(process)d %(filename)s:%(lineno)d] %(message)s"
    handler.setFormatter(_OneLine(line, datefmt="%m%d %H:%M:%S"))
    log = logging.getLogger("qwen_image.serving")
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return log


LOG = _standard_error_log()


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A model's own config.pbtxt as its process sees it."""

    name: str
    folder: Path  # of this version: holds model.py
    parameters: Mapping[str, str]
    max_batch_size: int
    instance_device: int  # the GPU that Triton gave this instance

    @classmethod
    def from_args(cls, args: Mapping[str, str]) -> ModelSettings:
        config = json.loads(args["model_config"])
        return cls(
            name=args["model_name"],
            folder=Path(args["model_repository"]) / args["model_version"],
            parameters={key: value["string_value"] for key, value in config["parameters"].items()},
            max_batch_size=int(config["max_batch_size"]),
            instance_device=int(args["model_instance_device_id"]),
        )

    def __getitem__(self, name: str) -> str:
        try:
            return self.parameters[name]
        except KeyError:
            raise CheckpointError(f"{self.name}/config.pbtxt has no parameter {name!r}: render it again") from None

    @property
    def device(self) -> str:
        """Where a model's tensors live, in PyTorch's words: "cpu", "cuda:0"."""
        return f"cuda:{self.instance_device}" if self["device"] == "cuda" else self["device"]

    @property
    def load_format(self) -> LoadFormat:
        return LoadFormat(self["load_format"])

    def checkpoint(self) -> Checkpoint:
        """For a model that loads weights."""
        return open_checkpoint(self["checkpoint"], needs_weights=self.load_format.reads_files)

    def integer(self, name: str) -> int:
        return int(self[name])
