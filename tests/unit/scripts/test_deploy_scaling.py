"""The chart's autoscalers and deploy/scaling against published schemas, with the targets of docs/scaling.md."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lightbox.base.telemetry.metrics import SATURATION
from support.chart import CHART, rendered
from support.deployment import requests_of
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
    tracking = requests_of(ScaleBy="concurrency")["LoadPolicy"]["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == float(concurrency)
    alarm = requests_of(ScaleBy="saturation")["SaturatedAlarm"]
    assert alarm["EvaluationCriteria"]["PromQLCriteria"]["Query"].endswith(f"> {both}")


def test_every_query_is_for_the_gauge() -> None:
    text = "".join(
        path.read_text()
        for path in (*SCALING.glob("*.yaml"), CHART / "templates" / "autoscaler.yaml", DEPLOY / "kserve" / "keda.yaml")
    )
    assert set(re.findall(r"lightbox_\w+", text)) == {SATURATION.name}
