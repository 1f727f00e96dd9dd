"""Every name and label that a panel or a rule asks for is one that a live server has."""

from __future__ import annotations

import re
from typing import Any

import promql_parser
import pytest

from tests.monitoring.expressions import Expression, every_expression, expressions, recorded, rules

GIVEN_BY_PROMETHEUS = {
    "up": set(),  # whether a scrape succeeded
    "ALERTS": {"alertname", "alertstate", "severity"},  # what fires
}
SCRAPE_LABELS = {"job", "instance"}
# Triton exports these of NVIDIA GPUs only, and these tests' server has none. Names and label as Triton documents them.
ONLY_WITH_A_GPU = {
    "nv_gpu_utilization": {"gpu_uuid"},
    "nv_gpu_memory_used_bytes": {"gpu_uuid"},
    "nv_gpu_memory_total_bytes": {"gpu_uuid"},
    "nv_gpu_power_usage": {"gpu_uuid"},
}


@pytest.fixture(scope="session")
def exports(triton_exports, gateway_exports):
    return triton_exports | gateway_exports


@pytest.fixture(scope="session")
def labels_of(exports) -> dict[str, set[str]]:
    """Of every metric there is the names of its labels, those that Prometheus adds included."""
    live = {name: {label for labels in series for label in labels} for name, series in exports.items()}
    known = GIVEN_BY_PROMETHEUS | ONLY_WITH_A_GPU | live
    for rule in rules():
        if "record" in rule:
            known[rule["record"]] = Expression(rule["record"], rule["expr"], frozenset()).grouped_by
    return {name: labels | SCRAPE_LABELS for name, labels in known.items()}


@pytest.mark.parametrize("expression", every_expression())
def test_every_metric_exists(expression, labels_of):
    asked = {selector.name for selector in expression.selectors}
    assert asked
    assert asked <= labels_of.keys()


@pytest.mark.parametrize("expression", every_expression())
def test_every_label_exists_on_its_metric(expression, labels_of):
    for selector in expression.selectors:
        assert {each.name for each in selector.matchers.matchers} <= labels_of[selector.name], selector.name
    for aggregate in expression.nodes(promql_parser.AggregateExpr):
        inner = Expression(expression.where, aggregate.expr.prettify(), frozenset())
        for selector in inner.selectors:
            assert set(aggregate.modifier.labels if aggregate.modifier else ()) <= labels_of[selector.name]


@pytest.mark.parametrize("expression", every_expression())
def test_every_label_that_is_shown_is_still_there(expression, labels_of):
    left = [labels_of[selector.name] for selector in expression.selectors]
    assert expression.shown <= (expression.grouped_by or set.union(*left))


@pytest.mark.parametrize("expression", every_expression())
def test_every_selector_finds_series(expression, exports):
    for selector in expression.selectors:
        if selector.name in exports:
            found = [labels for labels in exports[selector.name] if fits(selector, labels)]
            assert found, selector


def fits(selector: Any, labels: dict[str, str]) -> bool:
    return all(passes(each, labels.get(each.name, "")) for each in selector.matchers.matchers if each.name in labels)


def passes(matcher: Any, value: str) -> bool:
    operators = promql_parser.MatchOp
    is_pattern = matcher.op in (operators.Re, operators.NotRe)
    is_equal = re.fullmatch(matcher.value, value) is not None if is_pattern else matcher.value == value
    return is_equal is (matcher.op in (operators.Equal, operators.Re))


def test_what_needs_a_gpu_is_asked_for_and_not_there_without_one(triton_exports):
    asked = {selector.name for each in expressions() for selector in each.selectors}
    assert ONLY_WITH_A_GPU.keys() <= asked
    assert not ONLY_WITH_A_GPU.keys() & triton_exports.keys()


def test_every_metric_of_this_project_is_on_the_dashboard(exports):
    asked = {selector.name for each in expressions() for selector in each.selectors}
    ours = {name for name in exports if name.startswith("qwen_image_")}
    of_the_histogram = {name for name in ours if name.endswith(("_created", "_sum", "_count"))}
    assert ours - of_the_histogram <= asked


def test_what_is_recorded_is_used():
    asked = {selector.name for each in expressions() for selector in each.selectors}
    assert recorded() <= asked
