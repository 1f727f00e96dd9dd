"""The rules, by Prometheus' own tool where it is installed (Debian: apt-get install prometheus)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.monitoring.expressions import MONITORING, PROMETHEUS, RULE_FILES, alerts

RULE_TESTS = sorted((PROMETHEUS / "rule_tests").glob("*.yml"))
RUNBOOK = MONITORING.parent / "docs" / "monitoring.md"


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed; Debian's package prometheus has it")
    return found


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_its_configuration_and_finds_the_rules(promtool):
    run(promtool, "check", "config", PROMETHEUS / "prometheus.yml")
    (pattern,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["rule_files"]
    assert sorted(PROMETHEUS.glob(pattern)) == RULE_FILES


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_prometheus_accepts_the_rules(path, promtool):
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", path)


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_not_otherwise(path, promtool):
    run(promtool, "test", "rules", path)


def test_every_alert_has_a_case_in_which_it_fires():
    fires = {
        each["alertname"]
        for path in RULE_TESTS
        for case in yaml.safe_load(path.read_text())["tests"]
        for each in case.get("alert_rule_test", [])
        if each.get("exp_alerts")
    }
    assert fires == {each["alert"] for each in alerts()}


def test_every_alert_says_what_is_wrong_how_much_and_what_to_do():
    for each in alerts():
        assert each["annotations"].keys() == {"summary", "description", "runbook"}, each["alert"]
        assert each["labels"]["severity"] in ("critical", "warning", "info")
        assert "$labels.instance" in each["annotations"]["summary"]


def test_the_runbook_has_an_entry_for_every_alert_and_for_no_other():
    entries = re.findall(r"^### (QwenImage\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sorted(entries) == sorted(each["alert"] for each in alerts())


def test_the_jobs_that_the_rules_know_are_scraped():
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    jobs = {each["job_name"] for each in configuration["scrape_configs"]}
    asked = {job for each in alerts() for job in re.findall(r'job="(\w+)"', each["expr"])}
    assert asked == jobs
