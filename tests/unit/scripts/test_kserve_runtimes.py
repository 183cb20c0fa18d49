"""The serving runtimes and short examples under deploy/kserve against kserve's models and Kubernetes' schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lightbox.serving.settings_loading import known_variables
from support.parameters import each
from unit.scripts.test_deploy_manifests import DEPLOY, NEWEST, load, objections_of_kserve, validate

RUNTIMES = sorted((DEPLOY / "kserve" / "runtime").glob("*.yaml"))
EXAMPLES = sorted((DEPLOY / "kserve" / "examples").glob("*.yaml"))
PROTOCOLS = ["v1", "v2", "grpc-v1", "grpc-v2"]


@pytest.mark.extended
def test_kserve_accepts_all_but_the_one_with_a_mistake(tmp_path: Path) -> None:
    namespaced = load(RUNTIMES[0]) | {"kind": "ServingRuntime"}
    mistaken = {**namespaced, "spec": namespaced["spec"] | {"protocolVersion": "v1"}}
    for name, manifest in (("namespaced", namespaced), ("mistaken", mistaken)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    found = objections_of_kserve(*RUNTIMES, *EXAMPLES, *tmp_path.iterdir())
    assert len(found) == len(RUNTIMES) + len(EXAMPLES) + 2
    assert {name: error for name, error in found.items() if error} == {
        "mistaken": "mistaken.spec.protocolVersion is no field of V1alpha1ServingRuntimeSpec"
    }


def container(path: Path) -> dict[str, Any]:
    (only,) = load(path)["spec"]["containers"]
    return dict(only)


@each("path", RUNTIMES)
def test_kubernetes_accepts_the_pod(path: Path) -> None:
    spec = load(path)["spec"]
    pod = {"containers": spec["containers"], "volumes": spec["volumes"]}
    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lightbox"}, "spec": pod}, NEWEST)


@each("path", RUNTIMES)
def test_a_runtime_sets_what_lightbox_reads(path: Path) -> None:
    known = known_variables()
    environment = {entry["name"]: entry["value"] for entry in container(path)["env"]}
    assert environment.keys() <= known
    assert environment["LIGHTBOX_TFS_API"] == "true"
    assert f"/mnt/models '{environment['LIGHTBOX_MODEL_DIR']}'" in container(path)["args"][0]
    ports = {port["containerPort"] for port in container(path)["ports"]}
    assert ports == {8080, int(environment["LIGHTBOX_KSERVE_GRPC_PORT"])}
    assert load(path)["spec"]["protocolVersions"] == PROTOCOLS
    # Kubernetes' default grace period for a pod is 30 s.
    pause = int(container(path)["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pause + int(environment["LIGHTBOX_DRAIN_SECONDS"]) < 30
    resources = container(path)["resources"]
    assert resources["requests"] == resources["limits"]


def test_examples_have_seven_lines_and_fit_a_runtime() -> None:
    formats = {
        load(path)["metadata"]["name"]: {entry["name"] for entry in load(path)["spec"]["supportedModelFormats"]}
        for path in RUNTIMES
    }
    assert sorted(path.stem for path in EXAMPLES) == sorted(PROTOCOLS)
    for path in EXAMPLES:
        model = load(path)["spec"]["predictor"]["model"]
        assert len(path.read_text().splitlines()) == 7
        assert load(path)["spec"]["predictor"]["enableServiceLinks"] is False
        assert model["protocolVersion"] == path.stem
        assert model["modelFormat"]["name"] in formats[model["runtime"]]
