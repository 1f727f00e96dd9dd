"""Write the tables of docs/contract.md from the contract: python -m scripts.contract_tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from qwen_image_contract import INPUTS, OUTPUTS, Input

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "contract.md"


def inputs_table() -> str:
    """Of the inputs that every task has, images and streams left out."""
    rows = (
        (each.name, each.datatype, _shape(each), _default(each), each.range_text)
        for each in INPUTS
        if not (each.is_image or each.only_streams or len(each.tasks) == 1)
    )
    return _table(("input", "type", "shape of a row", "default", "range"), rows)


def streams_table() -> str:
    """Of the inputs that only streams have."""
    rows = (
        (each.name, each.datatype, _shape(each), _default(each), each.range_text)
        for each in INPUTS
        if each.only_streams
    )
    return _table(("input of a stream", "type", "shape of a row", "default", "range"), rows)


def outputs_table() -> str:
    return _table(
        ("output", "type", "shape of a row"), ((each.name, each.datatype, each.shape_text) for each in OUTPUTS)
    )


TABLES = {"inputs": inputs_table, "streams": streams_table, "outputs": outputs_table}


def with_tables(text: str) -> str:
    """The document with what is between its marks written anew."""
    for name, table in TABLES.items():
        marks = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        written = table().replace("\\", r"\\")
        text, found = re.subn(marks, rf"\g<1>{written}\g<2>", text, flags=re.DOTALL)
        assert found == 1, name
    return text


def _shape(each: Input) -> str:
    return "[n]" if each.elements < 0 else f"[{each.elements}]"


def _default(each: Input) -> str:
    return each.default_text or str(each.default)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
