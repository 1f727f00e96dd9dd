"""What a starting server is loading, and how much of it has been read from the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qwen_image.checkpoint.files import weight_files
from qwen_image.errors import CheckpointError

GB = 10**9
COMPONENTS = {"dit": "transformer", "text_encoder": "text_encoder", "vae_decoder": "vae", "vae_encoder": "vae"}
STUB = re.compile(r"/(\w+)/1/model\.py$")  # the Python backend's argument
LOADED = re.compile(r"successfully loaded '(\w+)'")


@dataclass(slots=True)
class Loading:
    """Of one server over a repository rendered for a checkpoint.

    A process's bytes are those it read, from the disk or the page cache, libraries included: so a component of under a
    gigabyte is named without them.
    """

    repository: Path
    checkpoint: Path
    log: Path
    server_pid: int
    _read: dict[str, int] = field(default_factory=dict)

    def describe(self) -> str:
        """The models that are not loaded yet, as "dit (3.2 of 40.9 GB), text_encoder"; empty if all are."""
        self._read_on()
        loaded = set(LOADED.findall(self.log.read_text(errors="replace")))
        models = sorted(path.parent.parent.name for path in self.repository.glob("*/1/model.py"))
        return ", ".join(self._described(model) for model in models if model not in loaded)

    def _described(self, model: str) -> str:
        size = self._size(model)
        if size < GB:
            return model
        return f"{model} ({min(self._read.get(model, 0), size) / GB:.1f} of {size / GB:.1f} GB)"

    def _size(self, model: str) -> int:
        try:
            files = weight_files(self.checkpoint / COMPONENTS.get(model, model))
        except (CheckpointError, FileNotFoundError):  # a model without weights, or random ones
            return 0
        return sum(path.stat().st_size for path in files)

    def _read_on(self) -> None:
        for model, count in _bytes_read(self.server_pid):
            self._read[model] = max(count, self._read.get(model, 0))


def _bytes_read(server_pid: int) -> Iterator[tuple[str, int]]:
    """By each model's process. Weights may be read, or mapped into memory from the disk or from the page cache."""
    import psutil  # not there yet where scripts/setup begins

    try:
        children = psutil.Process(server_pid).children(recursive=True)
    except psutil.Error:
        return
    for process in children:
        try:
            (model,) = [found[1] for each in process.cmdline() if (found := STUB.search(each))]
            read = process.io_counters()
            yield model, max(read.read_chars, read.read_bytes, process.memory_info().shared)
        except (psutil.Error, ValueError):
            continue
