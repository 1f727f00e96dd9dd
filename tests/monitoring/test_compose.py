"""What runs beside the server, as far as it can be judged without Docker."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MAIN, GATEWAY, MONITORING = (
    ROOT / name for name in ("compose.yaml", "clients/gateway.compose.yaml", "monitoring/compose.yaml")
)
DOCS = (ROOT / "docs" / "monitoring.md").read_text() + (ROOT / "docs" / "container.md").read_text()


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def beside() -> dict[str, dict[str, Any]]:
    return read(GATEWAY)["services"] | read(MONITORING)["services"]


def test_the_compose_file_includes_both_parts_and_paths_start_at_its_folder():
    included = read(MAIN)["include"]
    assert [ROOT / each["path"] for each in included] == [GATEWAY, MONITORING]
    assert {each["project_directory"] for each in included} == {"."}
    assert not read(MAIN)["services"].keys() & beside().keys()


def test_nothing_of_it_starts_unasked_and_the_monitoring_profile_starts_all():
    assert beside().keys() == {"gateway", "prometheus", "grafana"}
    assert all("monitoring" in each["profiles"] for each in beside().values())
    assert "profiles" not in read(MAIN)["services"]["triton"]


def test_what_opens_the_gateway_opens_nothing_that_asks_nobody_for_a_key():
    services = read(MAIN)["services"] | beside()
    opened = {
        name
        for name, service in services.items()
        if any("{QWEN_IMAGE_ADDRESS:" in each for each in service.get("ports", []))
    }
    assert opened == {"gateway", "grafana"}


@pytest.mark.parametrize("service", beside())
def test_services_can_not_write_to_their_image_and_have_no_privileges(service):
    each = beside()[service]
    assert each["read_only"] is True
    assert each["cap_drop"] == ["ALL"]
    assert each["security_opt"] == ["no-new-privileges:true"]
    assert each["mem_limit"]
    assert each["pids_limit"] > 0
    assert "privileged" not in each
    assert "user" not in each, "the image's own, which is not root"


@pytest.mark.parametrize("service", beside())
def test_ports_are_bound_to_this_host_unless_told_otherwise(service):
    (port,) = beside()[service]["ports"]
    assert re.fullmatch(r"\$\{QWEN_IMAGE_(?:TRITON_)?ADDRESS:-127\.0\.0\.1\}:\$\{QWEN_IMAGE_\w+_PORT:-(\d+)\}:\1", port)


@pytest.mark.parametrize("service", beside())
def test_services_come_back_and_say_whether_they_are_well(service):
    each = beside()[service]
    assert each["restart"] == "unless-stopped"
    assert "healthcheck" in each


def test_images_have_an_exact_version():
    for service in ("prometheus", "grafana"):
        assert re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", beside()[service]["image"])


def test_every_file_that_is_mounted_exists_and_can_not_be_changed():
    mounts = [each for service in beside().values() for each in service.get("volumes", [])]
    bound = [each for each in mounts if each["type"] == "bind"]
    assert bound
    for each in bound:
        assert (ROOT / re.sub(r"\$\{\w+:-(.+)\}", r"\1", each["source"])).exists()
        assert each["read_only"] is True
        assert each["bind"]["create_host_path"] is False
    named = {each["source"] for each in mounts if each["type"] == "volume"}
    assert named == read(MONITORING)["volumes"].keys()


def test_prometheus_scrapes_the_ports_that_the_services_listen_on():
    configuration = yaml.safe_load((ROOT / "monitoring" / "prometheus" / "prometheus.yml").read_text())
    services = read(MAIN)["services"] | beside()
    for job in configuration["scrape_configs"]:
        ((address,),) = [each["targets"] for each in job["static_configs"]]
        service, port = address.split(":")
        assert service == job["job_name"]
        assert any(each.endswith(f":{port}") for each in services[service]["ports"])


def test_grafana_asks_prometheus_by_its_name_in_the_network():
    path = ROOT / "monitoring" / "grafana" / "provisioning" / "datasources" / "prometheus.yaml"
    (source,) = yaml.safe_load(path.read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


def grafana_started_with(password: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Runs the container's own entry point, with a file in the place of Grafana's start script."""
    started = tmp_path / "run.sh"
    started.write_text("#!/bin/sh\necho started\n")
    started.chmod(0o755)
    entry = [each.replace("$$", "$").replace("/run.sh", str(started)) for each in beside()["grafana"]["entrypoint"]]
    environment = os.environ | {"GF_SECURITY_ADMIN_PASSWORD": password}
    return subprocess.run(entry, env=environment, capture_output=True, text=True, check=False)


def test_grafana_starts_with_a_password(tmp_path):
    assert grafana_started_with("correct horse", tmp_path).stdout == "started\n"


def test_grafana_does_not_start_without_a_password_and_says_which_variable_it_wants(tmp_path):
    done = grafana_started_with("", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "QWEN_IMAGE_GRAFANA_PASSWORD" in done.stderr


def test_nobody_looks_at_grafana_unasked():
    environment = beside()["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "${QWEN_IMAGE_GRAFANA_ANONYMOUS:-false}"
    assert environment["GF_SECURITY_ADMIN_PASSWORD"] == "${QWEN_IMAGE_GRAFANA_PASSWORD:-}"


@pytest.mark.parametrize("path", [GATEWAY, MONITORING], ids=["gateway", "monitoring"])
def test_every_variable_is_documented_with_its_default(path):
    rows = "\n".join(line for line in DOCS.splitlines() if line.startswith("| QWEN_IMAGE_"))
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", path.read_text()):
        assert re.search(rf"\b{name}\b.*{re.escape(default)}", rows), name
