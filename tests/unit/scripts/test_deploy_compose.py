"""deploy/compose.yaml against Compose's published schema, and whether its services fit together."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightbox.base.errors import STATUS_OF_CODE
from lightbox.base.telemetry.metrics import QUEUE_FULL
from lightbox.serving.settings_loading import known_variables
from support import commands
from support.metrics import COUNTERS, GAUGES, HISTOGRAMS, series_names
from support.parameters import each
from support.stack import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
LABELS = {label for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES) for label in metric.labels} | {"instance", "job", "le"}


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load(DEPLOY / "compose" / "alerts.yaml")["groups"][0]["rules"]
    return found


@pytest.mark.extended
def test_compose_accepts() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    commands.output([*command, str(DEPLOY / "compose.yaml")])


def test_compose_mounts_files_that_are_there_and_scrapes_its_own_service() -> None:
    services = load(DEPLOY / "compose.yaml")["services"]
    mounted = [entry.split(":")[0] for service in services.values() for entry in service["volumes"]]
    for source in (entry for entry in mounted if entry.startswith(".")):
        assert (DEPLOY / source).exists(), source
    assert (DEPLOY / services["lightbox"]["build"] / "Dockerfile").is_file()
    assert (DEPLOY / "../docs/grafana/lightbox.json").is_file()
    job = load(DEPLOY / "compose" / "prometheus.yaml")["scrape_configs"][0]
    assert job["static_configs"] == [{"targets": ["lightbox:8080"]}]
    assert "lightbox" in services
    source = load(DEPLOY / "compose" / "grafana" / "datasource.yaml")["datasources"][0]
    assert source["url"] == "http://prometheus:9090"


def test_compose_mounts_what_the_programs_are_configured_to_read() -> None:
    services = load(DEPLOY / "compose.yaml")["services"]
    inside = {name: {entry.split(":")[1] for entry in service["volumes"]} for name, service in services.items()}
    prometheus = load(DEPLOY / "compose" / "prometheus.yaml")
    assert set(prometheus["rule_files"]) <= inside["prometheus"]
    provider = load(DEPLOY / "compose" / "grafana" / "dashboards.yaml")["providers"][0]
    assert provider["options"]["path"] in inside["grafana"]


def test_compose_sets_what_lightbox_reads_and_publishes_what_it_opens() -> None:
    lightbox = load(DEPLOY / "compose.yaml")["services"]["lightbox"]
    assert lightbox["environment"].keys() <= known_variables()
    port = lightbox["environment"]["LIGHTBOX_KSERVE_GRPC_PORT"]
    assert lightbox["ports"] == [f"${{PUBLISH:-127.0.0.1}}:{number}:{number}" for number in ("8080", port)]


def test_compose_publishes_every_port_on_loopback_unless_set_otherwise() -> None:
    services = load(DEPLOY / "compose.yaml")["services"]
    published = [entry for service in services.values() for entry in service["ports"]]
    assert len(published) == 4
    for entry in published:
        assert entry.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1}:")), entry


def test_alerts_distinguish_our_errors_from_the_callers() -> None:
    ours = {code for code, status in STATUS_OF_CODE.items() if status.http >= 500}
    found = {rule["alert"]: set(re.findall(r'reason[!=]~"([^"]+)"', rule["expr"])) for rule in rules()}
    (reasons,) = found["LightboxServerErrors"]
    assert set(reasons.split("|")) == ours - {QUEUE_FULL}
    (reasons,) = found["LightboxCallersErrors"]
    assert set(reasons.split("|")) == ours | {QUEUE_FULL, "waited_too_long", "hung_up"}
    (away,) = (rule["expr"] for rule in rules() if rule["alert"] == "LightboxAway")
    job = load(DEPLOY / "compose" / "prometheus.yaml")["scrape_configs"][0]["job_name"]
    assert f'up{{job="{job}"}}' in away


@each("rule", rules())
def test_alerts_use_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    expression = rule["expr"]
    assert set(re.findall(r"lightbox_[a-z_]+", expression)) <= series_names()
    groups = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert groups | set(re.findall(r"[{,]([a-z]+)=", expression)) <= LABELS
    assert expression.count("(") == expression.count(")")
    shown = set(re.findall(r"\$labels\.([a-z]+)", rule["annotations"]["summary"]))
    assert shown <= groups | {"instance"}
