"""The dashboard's JSON, as far as it can be judged without Grafana."""

from __future__ import annotations

import itertools
import json

import pytest
import yaml

from monitoring.dashboard import TARGET, as_text
from monitoring.panel import Panel, Unit, read_rows
from tests.monitoring.expressions import DASHBOARD, MONITORING, panels

PROVISIONING = MONITORING / "grafana" / "provisioning"


def test_the_checked_in_dashboard_is_what_the_panels_make():
    assert TARGET.read_text() == as_text(read_rows()), "run: python -m monitoring.dashboard"


def test_every_panel_has_an_id_a_question_and_a_title_of_its_own():
    every = json.loads(DASHBOARD.read_text())["panels"]
    assert len({each["id"] for each in every}) == len(every)
    assert len({each["title"] for each in panels()}) == len(panels())
    assert all("?" in each["description"] for each in panels())


def test_panels_do_not_overlap_and_stay_within_the_width():
    taken = set()
    for each in json.loads(DASHBOARD.read_text())["panels"]:
        at = each["gridPos"]
        columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        cells = set(itertools.product(columns, lines))
        assert columns[-1] < 24
        assert not cells & taken, each["title"]
        taken |= cells


def test_every_query_asks_the_chosen_data_source_for_the_chosen_servers():
    names = {each["name"] for each in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    assert names == {"datasource", "instance", "gateway"}
    for panel in panels():
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert "$instance" in target["expr"] or "$gateway" in target["expr"] or "ALERTS" in target["expr"]


def test_an_unknown_key_or_unit_of_a_panel_is_an_error():
    known = {"title": "Steps", "question": "How many?", "unit": "rate", "series": [{"legend": "", "query": "up"}]}
    assert Panel.read(known).unit is Unit.RATE
    with pytest.raises(TypeError, match="colour"):
        Panel.read({**known, "colour": "red"})
    with pytest.raises(ValueError, match="furlongs"):
        Panel.read({**known, "unit": "furlongs"})


def test_grafana_looks_for_the_dashboard_where_compose_mounts_it():
    compose = yaml.safe_load((MONITORING / "compose.yaml").read_text())
    mounts = {each["target"]: each["source"] for each in compose["services"]["grafana"]["volumes"]}
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "qwen-image.yaml").read_text())["providers"]
    assert mounts[provider["options"]["path"]] == "./monitoring/grafana/dashboards"
    for kind in ("dashboards", "datasources"):
        assert mounts[f"/etc/grafana/provisioning/{kind}"] == f"./monitoring/grafana/provisioning/{kind}"


def test_the_data_source_knows_how_often_prometheus_scrapes():
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    scraped = yaml.safe_load((MONITORING / "prometheus" / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
