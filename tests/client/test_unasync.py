"""The blocking modules are the ones that their asyncio twins make."""

import re

import pytest

from scripts.unasync import CLIENT, COMMAND, SENTENCES, SOURCES, SYNTAX, blocking_twin, twin_path


@pytest.mark.parametrize("name", SOURCES)
def test_a_blocking_module_is_current(name):
    twin = twin_path(CLIENT / name)
    assert twin.read_text() == blocking_twin(CLIENT / name), f"{twin.name} isn't current: run {COMMAND}"


@pytest.mark.parametrize("name", SOURCES)
def test_a_blocking_module_awaits_nothing(name):
    _, text = twin_path(CLIENT / name).read_text().split("\n", 1)
    assert not re.search(r"async|await", text, re.IGNORECASE)


def test_every_module_with_an_asyncio_twin_is_written_from_it():
    assert sorted(path.name for path in CLIENT.glob("_async_*.py")) == list(SOURCES)


def test_every_replacement_is_in_use():
    text = "".join((CLIENT / name).read_text() for name in SOURCES)
    assert [sentence for sentence, _ in SENTENCES if sentence not in text] == []
    assert [pattern for pattern, _ in SYNTAX if not re.search(pattern, text)] == []
