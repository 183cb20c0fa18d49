"""The files under deploy/ against published schemas, and whether their parts fit together; nothing is downloaded."""

from __future__ import annotations

import json
import os
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
KSERVE = sorted((DEPLOY / "kserve").glob("*.yaml"))
OLDEST, NEWEST = "1.30", "the newest"
LIST, DICT = re.compile(r"[Ll]ist\[(.+)\]"), re.compile(r"(?:dict\(|Dict\[)str, (.+)[)\]]")
SCALARS: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "float": (int, float)}
PREDICTOR_ONLY = {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget", "autoScaling", "timeout"} | {
    "containerConcurrency"
}


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def pod(path: Path) -> dict[str, Any]:
    predictor: dict[str, Any] = load(path)["spec"]["predictor"]
    return predictor


def container(path: Path) -> dict[str, Any]:
    only: dict[str, Any] = pod(path)["containers"][0]
    return only


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_accepts_the_claim_and_the_pod_that_fills_it(version: str) -> None:
    claim, filler = yaml.safe_load_all((DEPLOY / "kubernetes" / "models.yaml").read_text())
    validate(claim, version)
    validate(filler, version)
    assert filler["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    served = yaml.safe_load((DEPLOY / "helm" / "lightbox" / "values.yaml").read_text())["models"]["source"]
    assert served == f"pvc://{claim['metadata']['name']}"


def validate(manifest: dict[str, Any], version: str) -> None:
    """Validate a manifest against the schemas of a Kubernetes version."""
    import kubernetes_validate  # a slow import: each process that collects the tests would take a second

    number = kubernetes_validate.latest_version() if version == NEWEST else version
    kubernetes_validate.validate(manifest, number, strict=True)


@pytest.fixture(scope="module")
def objections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return kserve's error for each file, "" for a valid one, and for a file with a mistake."""
    mistaken = load(KSERVE[0])
    mistaken["spec"]["predictor"]["minReplica"] = 1
    file = tmp_path_factory.mktemp("kserve") / "mistaken.yaml"
    file.write_text(yaml.safe_dump(mistaken))
    return objections_of_kserve(*KSERVE, file)


def objections_of_kserve(*files: Path) -> dict[str, str]:
    """Return kserve's error for each file, by the file's stem.

    kserve runs in a separate process: it registers the same messages as tritonclient, which other tests import.
    """
    program = "import unit.scripts.test_deploy_manifests as here; here.print_objections()"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("tests", "scripts"))}
    found: dict[str, str] = json.loads(
        commands.output([sys.executable, "-W", "ignore", "-c", program, *map(str, files)], environ)
    )
    return found


def print_objections() -> None:
    found = dict.fromkeys((Path(name).stem for name in sys.argv[1:]), "")
    for file in map(Path, sys.argv[1:]):
        manifest = load(file)
        version = "V1beta1" if manifest["kind"] == "InferenceService" else "V1alpha1"
        try:
            check_model(manifest, version + manifest["kind"], file.stem)
        except AssertionError as error:
            found[file.stem] = str(error) or "AssertionError"
    print(json.dumps(found))


@pytest.mark.extended
@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_kserve_accepts(path: Path, objections: dict[str, str]) -> None:
    assert objections[path.stem] == ""


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_the_pod_of_an_inference_service_is_one_for_kubernetes(path: Path) -> None:
    predictor = load(path)["spec"]["predictor"]
    pod = {key: value for key, value in predictor.items() if key not in PREDICTOR_ONLY}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lightbox"}, "spec": pod}
    validate(manifest, NEWEST)


def check_model(value: object, kind: str, where: str) -> None:
    """Check a value against a model of the kserve or kubernetes package, recursively: known fields, right types."""
    if listed := LIST.fullmatch(kind):
        assert isinstance(value, list), where
        for number, entry in enumerate(value):
            check_model(entry, listed[1], f"{where}[{number}]")
    elif mapped := DICT.fullmatch(kind):
        assert isinstance(value, dict), where
        for key, entry in value.items():
            check_model(entry, mapped[1], f"{where}.{key}")
    elif kind in SCALARS:
        assert isinstance(value, SCALARS[kind]), f"{where} is not {kind}"
    elif model := find_model(kind):
        assert isinstance(value, dict), where
        fields = {json: model.openapi_types[name] for name, json in model.attribute_map.items()}
        for key, entry in value.items():
            assert key in fields, f"{where}.{key} is no field of {kind}"
            check_model(entry, fields[key], f"{where}.{key}")
    else:
        assert kind in {"object", "ResourceQuantity", "IntOrString", "V1beta1MetricQuantity"}, (
            f"{where}: {kind} is not known"
        )


def find_model(kind: str) -> Any:
    import kserve.models
    import kubernetes.client

    plain = kind.removeprefix("K8sIoApiAppsV1").removeprefix("K8sIoApiAutoscalingV2")
    return getattr(kserve.models, kind, None) or getattr(kubernetes.client, plain, None)


@pytest.mark.extended
def test_the_walk_through_kserves_models_sees_mistakes(objections: dict[str, str]) -> None:
    assert "minReplica is no field of V1beta1PredictorSpec" in objections["mistaken"]


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_containers_have_no_privilege(path: Path) -> None:
    allowed = container(path)["securityContext"]
    assert allowed["readOnlyRootFilesystem"]
    assert not allowed["allowPrivilegeEscalation"]
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    resources = container(path)["resources"]
    assert resources["requests"] == resources["limits"]


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_pods_have_no_token_no_unusual_system_call_and_no_disk_without_a_bound(path: Path) -> None:
    assert pod(path)["automountServiceAccountToken"] is False
    assert pod(path)["enableServiceLinks"] is False
    effective = pod(path).get("securityContext", {}) | container(path)["securityContext"]
    assert effective["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (effective["runAsNonRoot"], effective["runAsUser"]) == (True, 1000)
    folders = [volume["emptyDir"] for volume in pod(path)["volumes"] if "emptyDir" in volume]
    assert [folder.keys() for folder in folders] == [{"sizeLimit"}]


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_settings_are_ones_that_lightbox_reads(path: Path) -> None:
    known = known_variables() | {"STORAGE_URI"}
    environment = {entry["name"]: entry["value"] for entry in container(path).get("env", [])}
    assert environment.keys() <= known
    assert "/tmp" in {mount["mountPath"] for mount in container(path)["volumeMounts"]}
    assert environment["LIGHTBOX_MODEL_DIR"] == "/mnt/models"


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_ports_are_those_that_lightbox_opens(path: Path) -> None:
    environment = {entry["name"]: entry["value"] for entry in container(path)["env"]}
    opened = {8080} | {int(port) for name, port in environment.items() if name == "LIGHTBOX_KSERVE_GRPC_PORT"}
    assert {port["containerPort"] for port in container(path)["ports"]} == opened


LABELS = {label for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES) for label in metric.labels} | {"instance", "job", "le"}


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
