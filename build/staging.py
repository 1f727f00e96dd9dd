"""Files and folders that appear under their names only when they are whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A name beside `path` to write a file or a folder to; it becomes `path` at the end, or nothing is left of it.

    A file that is there already is replaced. The folder above is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield staging
        staging.rename(path)
    finally:
        if staging.is_dir():
            shutil.rmtree(staging, ignore_errors=True)
        else:
            staging.unlink(missing_ok=True)
