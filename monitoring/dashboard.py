"""Writes Grafana's dashboard from monitoring/panels/: python -m monitoring.dashboard"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monitoring.panel import Kind, Panel, Row, Series, Unit, read_rows

TARGET = Path(__file__).parent / "grafana" / "dashboards" / "qwen-image.json"
SCHEMA_VERSION = 41  # Grafana 12.0's; later ones bring it up to date when they load it
WIDTH, HEIGHT, PER_LINE = 24, 8, 3
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {
    Unit.PLAIN: "short",
    Unit.RATE: "cps",
    Unit.PER_SECOND: "reqps",
    Unit.SECONDS: "s",
    Unit.SHARE: "percentunit",
    Unit.WATT: "watt",
}
SEVERITIES = {1: ("red",), 2: ("orange", "red")}


def dashboard(rows: list[Row]) -> dict[str, Any]:
    return {
        "uid": "qwen-image",
        "title": "Qwen-Image on Triton",
        "description": "docs/monitoring.md says what each row answers, and what to do about an alert.",
        "tags": ["qwen-image", "triton"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": variables()},
        "panels": laid_out(rows),
    }


def variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return [
        source,
        instances("instance", "Triton", "nv_inference_request_success"),
        instances("gateway", "Gateway", 'up{job="gateway"}'),
    ]


def instances(name: str, label: str, series: str) -> dict[str, Any]:
    """A choice of scraped addresses; all of them until one is picked."""
    labels = f"label_values({series}, instance)"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": labels, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def laid_out(rows: list[Row]) -> list[dict[str, Any]]:
    """Every row's title over its panels, three a line; ids are the places in this list."""
    placed: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        at = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        placed.append({"type": "row", "title": row.title, "collapsed": False, "panels": [], "gridPos": at})
        y += 1
        for first in range(0, len(row.panels), PER_LINE):
            line = row.panels[first : first + PER_LINE]
            width = WIDTH // len(line)
            for column, panel in enumerate(line):
                at = {"x": column * width, "y": y, "w": width, "h": HEIGHT}
                placed.append({**panel_json(panel), "gridPos": at})
            y += HEIGHT
    return [{"id": number, **each} for number, each in enumerate(placed, 1)]


def panel_json(panel: Panel) -> dict[str, Any]:
    is_number = panel.kind is Kind.NUMBER
    return {
        "type": "stat" if is_number else "timeseries",
        "title": panel.title,
        "description": panel.question,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
        "options": NUMBER_OPTIONS if is_number else GRAPH_OPTIONS,
        "targets": [target(each, chr(ord("A") + place)) for place, each in enumerate(panel.series)],
    }


def defaults(panel: Panel) -> dict[str, Any]:
    colours = SEVERITIES[len(panel.thresholds)] if panel.thresholds else ()
    limits = zip(colours, panel.thresholds, strict=True)
    steps = [{"color": "green", "value": None}, *({"color": colour, "value": value} for colour, value in limits)]
    found: dict[str, Any] = {
        "unit": UNITS[panel.unit],
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind is Kind.GRAPH:
        style = "line" if panel.thresholds else "off"
        found["custom"] = {"fillOpacity": 10, "showPoints": "never", "thresholdsStyle": {"mode": style}}
    return found


def target(series: Series, letter: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": series.query,
        "legendFormat": series.legend,
        "range": True,
    }


GRAPH_OPTIONS = {
    "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
NUMBER_OPTIONS = {
    "colorMode": "value",
    "graphMode": "area",
    "justifyMode": "auto",
    "orientation": "auto",
    "percentChangeColorMode": "standard",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "showPercentChange": False,
    "textMode": "auto",
    "wideLayout": True,
}


def as_text(rows: list[Row]) -> str:
    return json.dumps(dashboard(rows), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    TARGET.write_text(as_text(read_rows()))


if __name__ == "__main__":
    main()
