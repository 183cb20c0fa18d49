"""The chart's autoscalers and deploy/scaling against published schemas, and the commands of docs/scaling.md."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import botocore.session
import pytest
from botocore.validate import validate_parameters

from lightbox.base.telemetry.metrics import SATURATION
from lightbox.tools.deploy import requests
from lightbox.tools.deploy.deployment import VARIANT, Kind
from support.chart import CHART, rendered
from support.deployment import plan
from support.stack import REPOSITORY
from unit.scripts.test_deploy_manifests import DEPLOY, NEWEST, load, validate

SCALING = DEPLOY / "scaling"
PAGE = (REPOSITORY / "docs" / "scaling.md").read_text()
SCALED_OBJECT = {
    "scaleTargetRef": {"apiVersion", "kind", "name", "envSourceContainerName"},
    "advanced": {"horizontalPodAutoscalerConfig", "restoreToOriginalReplicaCount", "scalingModifiers"},
    "pollingInterval": int,
    "cooldownPeriod": int,
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "triggers": {"type", "name", "metadata", "metricType", "authenticationRef", "useCachedMetrics"},
}
"""Fields of a ScaledObject's spec, from KEDA's definition of it."""


def model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return rendered({"autoscaling": {"by": "keda"}}, tmp_path_factory.mktemp("keda"))["ScaledObject"]


@pytest.fixture(scope="module")
def hpa(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return rendered({"autoscaling": {"by": "saturation"}}, tmp_path_factory.mktemp("hpa"))["HorizontalPodAutoscaler"]


def test_keda_knows_every_field(keda: dict[str, Any], hpa: dict[str, Any]) -> None:
    assert (keda["apiVersion"], keda["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    for name, value in keda["spec"].items():
        known = SCALED_OBJECT[name]
        if isinstance(known, type):
            assert isinstance(value, known)
            continue
        for entry in value if isinstance(value, list) else [value]:
            assert entry.keys() <= known
    for trigger in keda["spec"]["triggers"]:
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
    # KEDA copies this to a HorizontalPodAutoscaler unchanged.
    behavior = keda["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    validate(hpa | {"spec": hpa["spec"] | {"behavior": behavior}}, NEWEST)


def test_knative_has_the_annotations_it_knows_and_a_pod_for_kubernetes() -> None:
    template = load(SCALING / "knative.yaml")["spec"]["template"]
    known = {"metric", "target", "target-utilization-percentage", "min-scale", "max-scale"}
    assert template["metadata"]["annotations"].keys() == {f"autoscaling.knative.dev/{name}" for name in known}
    own = {"containerConcurrency", "timeoutSeconds"}
    pod = {name: value for name, value in template["spec"].items() if name not in own}
    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lightbox"}, "spec": pod}, NEWEST)
    cores = int(pod["containers"][0]["resources"]["limits"]["cpu"])
    assert template["spec"]["containerConcurrency"] == 8 * cores


def test_the_targets_are_those_of_the_page(keda: dict[str, Any], hpa: dict[str, Any]) -> None:
    (both,) = re.findall(r"\*\*Scale on `lightbox_saturation` and CPU, both at ([\d.]+)\.\*\*", PAGE)
    (concurrency,) = set(re.findall(r"^\| concurrency \| ([\d.]+) \|", PAGE, re.MULTILINE))
    cpu, saturation = keda["spec"]["triggers"]
    assert (int(cpu["metadata"]["value"]) / 100, saturation["metadata"]["threshold"]) == (float(both), both)
    cpu, saturation = hpa["spec"]["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 100 * float(both)
    assert saturation["pods"]["target"]["averageValue"] == f"{1000 * float(both):.0f}m"
    assert saturation["pods"]["metric"]["name"] == SATURATION.name
    cpu, saturation = load(DEPLOY / "kserve" / "keda.yaml")["spec"]["predictor"]["autoScaling"]["metrics"]
    assert saturation["external"]["target"]["value"] == both
    annotations = load(SCALING / "knative.yaml")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["autoscaling.knative.dev/target"] == concurrency
    assert json.loads((SCALING / "sagemaker-policy.json").read_text())["TargetValue"] == float(concurrency)


def test_every_query_is_for_the_gauge() -> None:
    text = "".join(
        path.read_text()
        for path in (*SCALING.glob("*.yaml"), CHART / "templates" / "autoscaler.yaml", DEPLOY / "kserve" / "keda.yaml")
    )
    assert set(re.findall(r"lightbox_\w+", text)) == {SATURATION.name}


def test_the_page_s_aws_commands_are_calls_that_botocore_knows() -> None:
    service = model("application-autoscaling")
    (block,) = [block for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) if "aws " in block]
    for line in block.replace("\\\n", " ").splitlines():
        _, _, operation, *options = shlex.split(line)
        shape = service.operation_model("".join(part.title() for part in operation.split("-"))).input_shape
        names = {name.lower(): name for name in shape.members}
        given: dict[str, Any] = {}
        for option, value in zip(options[::2], options[1::2], strict=True):
            name = names[option.removeprefix("--").replace("-", "")]
            if value.startswith("file://"):
                given[name] = json.loads((REPOSITORY / value.removeprefix("file://")).read_text())
            else:
                given[name] = int(value) if shape.members[name].type_name == "integer" else value
        validate_parameters(given, shape)
        assert given["ResourceId"] == f"endpoint/lightbox/variant/{VARIANT}"
    kinds = service.shape_for("MetricType").enum
    policy = json.loads((SCALING / "sagemaker-policy.json").read_text())
    assert policy["PredefinedMetricSpecification"]["PredefinedMetricType"] in kinds


def test_a_real_time_endpoint_has_its_metrics_read() -> None:
    shape = model("sagemaker").operation_model("CreateEndpointConfig").input_shape
    request = requests.endpoint_config(plan())
    validate_parameters(request, shape)
    assert request["MetricsConfig"] == {"EnableDetailedObservability": True, "MetricPublishFrequencyInSeconds": 10}
    assert "MetricsConfig" not in requests.endpoint_config(plan(kind=Kind.SERVERLESS))
