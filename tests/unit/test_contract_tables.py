"""docs/contract.md says of every input and output what the contract says."""

from __future__ import annotations

from scripts.contract_tables import DOCUMENT, with_tables


def test_the_tables_are_the_contracts():
    text = DOCUMENT.read_text()
    assert with_tables(text) == text, "write them anew: python -m scripts.contract_tables"
