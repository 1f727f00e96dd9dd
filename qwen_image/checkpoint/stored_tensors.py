"""What the headers of a component's files say of the tensors in them. No tensor is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from qwen_image.checkpoint.files import index_file, refuse_pointer, weight_files, weight_map
from qwen_image.errors import CheckpointError

OTHER_KINDS = {b"PK\x03\x04": "is a PyTorch file", b"GGUF": "is a GGUF file", b"<": "is a page of HTML or XML"}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies, and what it is."""

    path: Path
    dtype: str  # in safetensors' words: BF16
    shape: tuple[int, ...]


def stored_tensors(component: Path) -> dict[str, StoredTensor]:
    """Every tensor of the files that are loaded, by its name there.

    CheckpointError names the file that is missing or no whole safetensors file, a tensor that lies in two files, and
    one that is not in the file that the index says.
    """
    found: dict[str, StoredTensor] = {}
    for path in weight_files(component):
        for name, tensor in _header(path).items():
            if name in found:
                raise CheckpointError(f"{name} is in {found[name].path} and in {path.name}: remove one of the files")
            found[name] = tensor
    _check_index(component, found)
    return found


def _header(path: Path) -> dict[str, StoredTensor]:
    if not path.is_file():
        raise CheckpointError(f"{path}, which the index beside it names, is missing")
    refuse_pointer(path)
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
            return {
                name: StoredTensor(path, each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()
            }
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} {_unlike_safetensors(path, error)}: download it again") from error


def _unlike_safetensors(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    kind = next((kind for magic, kind in OTHER_KINDS.items() if start.startswith(magic)), None)
    size = path.stat().st_size
    if kind is not None:
        return f"{kind} of {size} bytes, not of safetensors"
    is_cut = "not fully covered" in str(error) or size == 0
    return f"is cut off after {size} bytes" if is_cut else f"is no safetensors file ({error}; it has {size} bytes)"


def _check_index(component: Path, found: dict[str, StoredTensor]) -> None:
    index = index_file(component)
    for name, file in weight_map(index).items() if index else ():
        where = found[name].path.name if name in found else "no file"
        if where != file:
            raise CheckpointError(f"{index} says that {name} is in {file}, and it is in {where}: were files swapped?")
