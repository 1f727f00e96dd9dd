"""Which checkpoint something was made from, in a moment even for 40 GB."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from qwen_image.checkpoint.files import read_json, weight_files

HEADER_LENGTH_BYTES = 8  # of a safetensors file: the header's length, little endian
SAMPLE_BYTES = 4096  # of each tensor: training changes every tensor it touches from its start


def config_fingerprint(component: Path) -> str:
    """SHA-256 of a component's config.json, what tools note in it (names that start with _) left out."""
    config = {key: value for key, value in read_json(component / "config.json").items() if not key.startswith("_")}
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def weights_fingerprint(component: Path) -> str:
    """SHA-256 of the header of every file of weights and of the first 4 KiB of each tensor in it."""
    digest = hashlib.sha256()
    for path in weight_files(component):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
            header = file.read(length)
            digest.update(header)
            tensors = {name: each for name, each in json.loads(header).items() if name != "__metadata__"}
            for each in sorted(tensors.values(), key=lambda each: int(each["data_offsets"][0])):
                start, end = each["data_offsets"]
                file.seek(HEADER_LENGTH_BYTES + length + start)
                digest.update(file.read(min(end - start, SAMPLE_BYTES)))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
