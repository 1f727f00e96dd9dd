"""Every PromQL expression of the dashboard and the rules, and what it asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "qwen-image.json"
PROMETHEUS = MONITORING / "prometheus"
RULE_FILES = sorted((PROMETHEUS / "rules").glob("*.yml"))

VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$gateway": ".*"}


@dataclass(frozen=True, slots=True)
class Expression:
    """`shown` are the labels that its legend or its annotations name."""

    where: str
    text: str
    shown: frozenset[str]

    @property
    def tree(self) -> Any:
        text = self.text
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        return promql_parser.parse(text)

    def nodes(self, kind: type) -> list[Any]:
        found: list[Any] = []
        promql_parser.walk(self.tree, lambda node: found.append(node) if isinstance(node, kind) else None)
        return found

    @property
    def selectors(self) -> list[Any]:
        return self.nodes(promql_parser.VectorSelector)

    @property
    def grouped_by(self) -> set[str]:
        kinds = promql_parser.AggModifierType
        modifiers = [each.modifier for each in self.nodes(promql_parser.AggregateExpr) if each.modifier]
        assert all(each.type == kinds.By for each in modifiers), f"{self.where}: `by` says what is left, `without` not"
        return {label for each in modifiers for label in each.labels}


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads(DASHBOARD.read_text())["panels"] if each["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    return [
        rule for path in RULE_FILES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]
    ]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def expressions() -> Iterator[Expression]:
    for panel in panels():
        for target in panel["targets"]:
            shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            yield Expression(f"{panel['title']} {target['refId']}", target["expr"], frozenset(shown))
    for rule in rules():
        shown = re.findall(r"\$labels\.(\w+)", str(rule.get("annotations")))
        yield Expression(rule.get("alert") or rule["record"], rule["expr"], frozenset(shown))


def every_expression() -> list[Any]:
    """For pytest.mark.parametrize, each under its panel's or rule's name."""
    import pytest

    return [pytest.param(each, id=each.where) for each in expressions()]
