"""The Helm chart with several sets of values, against Kubernetes' schemas, itself, and Lightbox's settings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from docker_image.container import MODELS_DIR
from docker_image.docker import argument
from lightbox import __version__
from lightbox.base.telemetry.metrics import SATURATION
from lightbox.serving.settings_loading import known_variables, load_settings
from support import commands
from support.chart import CHART, render_chart, rendered
from support.parameters import each
from unit.scripts.test_deploy_manifests import DEPLOY, NEWEST, OLDEST, validate

Manifests = dict[str, dict[str, Any]]

SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "least": {
        "models": {"source": "pvc://shared/vision/models"},
        "grpc": False,
        "autoscaling": {"by": "none"},
        "metrics": {"scrape": "none"},
        "networkPolicy": {"enabled": False},
    },
    "most": {
        "image": {"repository": "registry.example.com:5000/vision/lightbox", "tag": "0.1.0@sha256:" + "0" * 64},
        "models": {"source": "s3://our-bucket/models", "credentials": "models-reader"},
        "cores": 4,
        "settings": {
            "LIGHTBOX_DRAIN_SECONDS": 55,
            "LIGHTBOX_MAX_IMAGE_PIXELS": 50000000,
            "LIGHTBOX_OPTIONS": {"image_size": "640x480"},
            "LIGHTBOX_PAGE": True,
            "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": 0.25,
        },
        "keys": {"secret": "lightbox-keys"},
        "tls": {"secret": "lightbox-tls", "clientCertificates": True},
        "autoscaling": {"by": "keda", "max": 40},
        "metrics": {
            "scrape": "serviceMonitor",
            "labels": {"release": "prometheus"},
            "keySecret": "prometheus-key",
            "certificateSecret": "prometheus-tls",
        },
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}}}],
            "egress": [{"ports": [{"protocol": "TCP", "port": 4318}]}],  # unopened
        },
        "pod": {
            "serviceAccountName": "vision",
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "tolerations": [{"key": "vision", "operator": "Exists"}],
        },
    },
    "image": {"models": {"source": "oci://registry.example.com/models:7"}, "autoscaling": {"by": "saturation"}},
    "one node": {"models": {"source": "file:///srv/models"}, "disruptionBudget": {"maxUnavailable": "50%"}},
    # Names that YAML reads as numbers, booleans or mappings.
    "names": {
        "models": {"source": "s3://models", "s3Image": "registry:5000/aws: cli", "credentials": "123"},
        "keys": {"secret": "true"},
    },
}
ALWAYS = {"Deployment", "Service", "PodDisruptionBudget"}
KINDS = {
    "defaults": {"HorizontalPodAutoscaler", "NetworkPolicy"},
    "least": set(),
    "most": {"ScaledObject", "NetworkPolicy", "ServiceMonitor"},
    "image": {"HorizontalPodAutoscaler", "NetworkPolicy"},
    "one node": {"HorizontalPodAutoscaler", "NetworkPolicy"},
    "names": {"HorizontalPodAutoscaler", "NetworkPolicy"},
}
ELSEWHERE = {"ScaledObject", "ServiceMonitor"}
"""Kinds of which Kubernetes knows nothing."""
ENDPOINT = {"targetPort", "path", "scheme", "authorization", "tlsConfig"}
TLS_CONFIG = {"ca", "cert", "keySecret", "serverName"}
"""Fields of a ServiceMonitor that the chart uses, from the reference of Prometheus' operator."""


@pytest.fixture(scope="module")
def all_rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Manifests]:
    return {name: rendered(values, tmp_path_factory.mktemp("values")) for name, values in SETS.items()}


@pytest.fixture(params=SETS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def manifests(name: str, all_rendered: dict[str, Manifests]) -> Manifests:
    return all_rendered[name]


def pod(manifests: Manifests) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(manifests: Manifests) -> dict[str, Any]:
    (only,) = pod(manifests)["containers"]
    return dict(only)


def environment(manifests: Manifests) -> dict[str, str]:
    entries = container(manifests)["env"]
    found = {entry["name"]: entry["value"] for entry in entries}
    assert len(found) == len(entries), "a variable is there twice"
    return found


def test_the_kinds_are_those_that_the_values_ask_for(name: str, manifests: Manifests) -> None:
    assert manifests.keys() == ALWAYS | KINDS[name]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_accepts_every_manifest(manifests: Manifests, version: str) -> None:
    for kind in manifests.keys() - ELSEWHERE:
        validate(manifests[kind], version)


def test_the_validator_sees_a_mistake(all_rendered: dict[str, Manifests]) -> None:
    text = yaml.safe_dump(all_rendered["defaults"]["Deployment"]).replace("readOnlyRootFilesystem", "readOnlyRoot")
    with pytest.raises(Exception, match="readOnlyRoot"):
        validate(yaml.safe_load(text), NEWEST)


def test_objects_find_each_other(manifests: Manifests) -> None:
    deployment = manifests["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        manifests["Service"]["spec"]["selector"],
        manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        pod(manifests)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    if "NetworkPolicy" in manifests:
        selectors.append(manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"])
    assert all(selector == labels for selector in selectors)
    for kind in manifests.keys() & {"HorizontalPodAutoscaler", "ScaledObject"}:
        assert manifests[kind]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    # Either an autoscaler or the Deployment sets the number of replicas.
    assert ("replicas" in deployment["spec"]) == manifests.keys().isdisjoint(
        {"HorizontalPodAutoscaler", "ScaledObject"}
    )
    if "ServiceMonitor" in manifests:
        selected = manifests["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        assert selected.items() <= manifests["Service"]["metadata"]["labels"].items()


def test_ports_are_those_that_lightbox_opens(manifests: Manifests) -> None:
    ports = {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}
    grpc = environment(manifests).get("LIGHTBOX_KSERVE_GRPC_PORT")
    assert set(ports.values()) == {8080} | ({int(grpc)} if grpc else set())
    assert {port["targetPort"] for port in manifests["Service"]["spec"]["ports"]} == ports.keys()
    if "NetworkPolicy" in manifests:
        (rule,) = manifests["NetworkPolicy"]["spec"]["ingress"]
        assert {port["port"] for port in rule["ports"]} == set(ports.values())


def test_pods_have_no_privilege_no_token_and_no_disk_without_a_bound(manifests: Manifests) -> None:
    spec = pod(manifests)
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 1000
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in [*spec.get("initContainers", []), *spec["containers"]]:
        allowed = one["securityContext"]
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["allowPrivilegeEscalation"] is False
        assert allowed["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["requests"] == one["resources"]["limits"]
    folders = [volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume]
    assert [folder.keys() for folder in folders] == [{"sizeLimit"}] * len(folders)
    secrets = [volume["secret"]["defaultMode"] for volume in spec["volumes"] if "secret" in volume]
    assert secrets == [0o440] * len(secrets)


def test_every_volume_is_mounted_and_models_cannot_be_written(manifests: Manifests) -> None:
    spec = pod(manifests)
    mounts = {mount["mountPath"]: mount for mount in container(manifests)["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in spec["volumes"]}
    assert all(mount["readOnly"] for path, mount in mounts.items() if path != "/tmp")
    assert {environment(manifests)["LIGHTBOX_MODEL_DIR"], "/tmp"} <= mounts.keys()


def test_lightbox_reads_every_setting(manifests: Manifests, tmp_path: Path) -> None:
    environ = environment(manifests)
    assert environ.keys() <= known_variables()
    folders = [mount["mountPath"] for mount in container(manifests)["volumeMounts"]]
    for name in environ.keys() & {"LIGHTBOX_API_KEYS", "LIGHTBOX_TLS_CERT", "LIGHTBOX_TLS_CLIENT_CA"}:
        assert any(f"{environ[name]}/".startswith(f"{folder}/") for folder in folders), name
        environ[name] = str(tmp_path)
    environ.pop("LIGHTBOX_API_KEYS", None)
    load_settings(environ)


def test_the_pod_lives_longer_than_the_drain(manifests: Manifests) -> None:
    pause = int(container(manifests)["lifecycle"]["preStop"]["exec"]["command"][-1])
    drain = int(environment(manifests)["LIGHTBOX_DRAIN_SECONDS"])
    assert pod(manifests)["terminationGracePeriodSeconds"] == pause + drain + 10


def test_numbers_and_objects_of_settings_are_written_as_lightbox_reads_them(all_rendered: dict[str, Manifests]) -> None:
    found = environment(all_rendered["most"])
    given = {name: found[name] for name in SETS["most"]["settings"]}
    assert given == {
        "LIGHTBOX_DRAIN_SECONDS": "55",
        "LIGHTBOX_MAX_IMAGE_PIXELS": "50000000",
        "LIGHTBOX_OPTIONS": '{"image_size":"640x480"}',
        "LIGHTBOX_PAGE": "true",
        "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": "0.25",
    }


@each(
    ("name", "volume"),
    [
        ("defaults", {"persistentVolumeClaim": {"claimName": "lightbox-models", "readOnly": True}}),
        ("least", {"persistentVolumeClaim": {"claimName": "shared", "readOnly": True}}),
        ("most", {"emptyDir": {"sizeLimit": "5Gi"}}),
        ("image", {"emptyDir": {"sizeLimit": "5Gi"}}),
        ("one node", {"hostPath": {"path": "/srv/models", "type": "Directory"}}),
    ],
)
def test_models_come_from_their_source(name: str, volume: dict[str, Any], all_rendered: dict[str, Manifests]) -> None:
    (models,) = [entry for entry in pod(all_rendered[name])["volumes"] if entry["name"] == "models"]
    assert models == {"name": "models", **volume}
    (mount,) = [entry for entry in container(all_rendered[name])["volumeMounts"] if entry["name"] == "models"]
    assert mount.get("subPath") == ("vision/models" if name == "least" else None)


def test_what_is_copied_is_copied_to_where_it_is_served_from(all_rendered: dict[str, Manifests]) -> None:
    (s3,) = pod(all_rendered["most"])["initContainers"]
    assert s3["command"] == ["aws", "s3", "sync", "--no-progress", "s3://our-bucket/models", MODELS_DIR]
    assert s3["envFrom"] == [{"secretRef": {"name": "models-reader"}}]
    (image,) = pod(all_rendered["image"])["initContainers"]
    assert (image["image"], image["command"][-1]) == ("registry.example.com/models:7", MODELS_DIR)
    for one in (s3, image):
        assert {mount["mountPath"]: mount["name"] for mount in one["volumeMounts"]} == {
            MODELS_DIR: "models",
            "/tmp": "tmp",
        }
    for name in ("defaults", "least", "one node"):
        assert "initContainers" not in pod(all_rendered[name])


def test_the_network_policy_lets_out_what_is_named_alone(all_rendered: dict[str, Manifests]) -> None:
    def out(name: str) -> list[list[int]]:
        rules = all_rendered[name]["NetworkPolicy"]["spec"]["egress"]
        return [[port["port"] for port in rule["ports"]] for rule in rules]

    assert (out("defaults"), out("image"), out("most")) == ([], [], [[53, 53, 443], [4318]])
    (rule,) = all_rendered["most"]["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == SETS["most"]["networkPolicy"]["from"]


def test_with_tls_whoever_asks_a_pod_speaks_it(name: str, manifests: Manifests) -> None:
    tls = name == "most"
    probes = [container(manifests)[kind]["httpGet"] for kind in ("startupProbe", "readinessProbe")]
    assert {probe["scheme"] for probe in probes} == {"HTTPS" if tls else "HTTP"}
    assert {probe["path"] for probe in probes} == {"/ping"}
    assert manifests["Service"]["spec"]["ports"][0]["port"] == (443 if tls else 80)
    annotations = manifests["Deployment"]["spec"]["template"]["metadata"].get("annotations", {})
    assert annotations.get("prometheus.io/scheme") == (None if name in ("least", "most") else "http")


def test_prometheus_operator_knows_every_field(all_rendered: dict[str, Manifests]) -> None:
    monitor = all_rendered["most"]["ServiceMonitor"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint.keys() == ENDPOINT
    assert endpoint["tlsConfig"].keys() == TLS_CONFIG
    assert endpoint["targetPort"] in {port["name"] for port in container(all_rendered["most"])["ports"]}
    assert endpoint["authorization"] == {"credentials": {"name": "prometheus-key", "key": "key"}}


def test_keda_s_query_is_for_the_pods_of_this_release_alone(all_rendered: dict[str, Manifests]) -> None:
    query = all_rendered["most"]["ScaledObject"]["spec"]["triggers"][1]["metadata"]["query"]
    found = re.fullmatch(r'avg\((\w+)\{namespace="(.*)",pod=~"(.*)"\}\)', query)
    assert found
    gauge, namespace, pods = found.groups()
    assert (gauge, namespace) == (SATURATION.name, "vision")
    assert re.fullmatch(pods, "lightbox-5d9c7b6f4-x2x7k")
    assert not re.fullmatch(pods, "lightbox-pets-5d9c7b6f4-x2x7k")


@each(
    ("values", "sentence"),
    [
        ({"models": {"source": "gs://bucket/models"}}, "at '/models/source': 'gs://bucket/models' does not match"),
        ({"cores": 1.5}, "at '/cores': got number, want integer"),
        ({"core": 2}, "additional properties 'core' not allowed"),
        ({"memory": "2 GB"}, "at '/memory': '2 GB' does not match"),
        (
            {"autoscaling": {"by": "gpu"}},
            "at '/autoscaling/by': value must be one of 'cpu', 'saturation', 'keda', 'none'",
        ),
        ({"settings": {"lightbox_page": True}}, "'lightbox_page' does not match"),
        ({"settings": {"LIGHTBOX_BOGUS": 1}}, "invalid propertyName 'LIGHTBOX_BOGUS'"),
        ({"settings": {"PORT": 9000}}, "settings.PORT: expected a setting that the chart leaves"),  # unopened
        ({"settings": {"LIGHTBOX_PORT": 9000}}, "value must be one of 'LIGHTBOX_API_KEYS', "),  # unopened
        ({"tls": {"secret": "Our Secret"}}, "at '/tls/secret': 'Our Secret' does not match"),
        ({"pod": {"hostNetwork": True}}, "at '/pod': additional properties 'hostNetwork' not allowed"),
        (
            {"settings": {"SAGEMAKER_BIND_TO_PORT": 9000}},  # unopened
            "settings.SAGEMAKER_BIND_TO_PORT: expected a setting that the chart leaves to you, got one that follows",
        ),
        (
            {"settings": {"AIP_HTTP_PORT": 9000}},  # unopened
            "settings.AIP_HTTP_PORT: expected a setting that the chart leaves to you, got one that follows",
        ),
        ({"settings": {"LIGHTBOX_NGINX": False}}, "settings.LIGHTBOX_NGINX: expected a setting that the chart leaves"),
        ({"tls": {"clientCertificates": True}}, "tls.secret: expected a Secret with tls.crt, tls.key and ca.crt"),
    ],
)
def test_wrong_values_are_refused_with_a_sentence(values: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    done = render_chart("--values", str(tmp_path / "values.yaml"))
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr


def test_every_value_is_one_that_the_schema_knows() -> None:
    """values.yaml has every key with a default, so you do not need to read the schema."""
    validator = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(CHART / "values.schema.json")]
    commands.output([*validator, str(CHART / "values.yaml")])
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values.keys() == schema.keys() - {"global"}
    for name in values.keys() - {"settings", "pod"}:
        if isinstance(values[name], dict):
            assert values[name].keys() == schema[name]["properties"].keys()


def test_helm_s_lint_has_no_complaint() -> None:
    program = (
        f"import helm_python as h; print(h.lint({str(CHART)!r}, strict=True, kube_version='v{OLDEST}.0')['errors'])"
    )
    command = [sys.executable, "-c", program]
    done = commands.run(command)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_plain_manifests_are_the_chart_s() -> None:
    """Run `make manifests` to write them again."""
    _, _, plain = (DEPLOY / "kubernetes" / "lightbox.yaml").read_text().partition("\n")
    assert plain == render_chart().stdout


def test_the_chart_has_the_version_of_the_images() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"], argument("VERSION")} == {__version__}
