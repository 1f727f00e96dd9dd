"""The dashboard's rows and panels, read from monitoring/panels/, before they become Grafana's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

FOLDER = Path(__file__).parent / "panels"
ORDER = ("triton", "gateway")  # the files, as they follow each other on the dashboard


class Kind(StrEnum):
    GRAPH = "graph"
    NUMBER = "number"


class Unit(StrEnum):
    """Of a panel's values. RATE is of things, PER_SECOND of requests; a SHARE of 1 is all there is."""

    PLAIN = "plain"
    RATE = "rate"
    PER_SECOND = "per second"
    SECONDS = "seconds"
    SHARE = "share"
    WATT = "watt"


@dataclass(frozen=True, slots=True)
class Series:
    """One PromQL expression; `{{label}}` in the legend stands for a label's value."""

    legend: str
    query: str


@dataclass(frozen=True, slots=True)
class Panel:
    """`thresholds`: from the first value on it is orange, from the second red; a single one is red."""

    title: str
    question: str
    unit: Unit
    series: tuple[Series, ...]
    kind: Kind = Kind.GRAPH
    thresholds: tuple[float, ...] = ()

    @classmethod
    def read(cls, values: dict[str, Any]) -> Panel:
        """ValueError or TypeError for a unit, kind or key that does not exist."""
        known = {
            **values,
            "unit": Unit(values["unit"]),
            "kind": Kind(values.get("kind", Kind.GRAPH)),
            "series": tuple(Series(**each) for each in values["series"]),
            "thresholds": tuple(values.get("thresholds", ())),
        }
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def read_rows(folder: Path = FOLDER) -> list[Row]:
    """All rows, in the order in which the dashboard shows them."""
    found = [each for name in ORDER for each in yaml.safe_load((folder / f"{name}.yaml").read_text())]
    return [Row(each["row"], tuple(map(Panel.read, each["panels"]))) for each in found]
