"""The serving runtimes and short examples under deploy/kserve against kserve's models and Kubernetes' schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightbox.settings_loading import known_variables
from support.parameters import each
from support.patience import PATIENCE
from support.stack import REPOSITORY
from unit.scripts.test_deploy_manifests import DEPLOY, NEWEST, check_model, load, validate

RUNTIMES = sorted((DEPLOY / "kserve" / "runtime").glob("*.yaml"))
EXAMPLES = sorted((DEPLOY / "kserve" / "examples").glob("*.yaml"))
PROTOCOLS = ["v1", "v2", "grpc-v1", "grpc-v2"]


def print_objections() -> None:
    """Print kserve's error for each file; see test_deploy_manifests."""
    mistaken = load(RUNTIMES[0])
    mistaken["spec"]["protocolVersion"] = "v1"
    found = {}
    manifests = {str(path): load(path) for path in (*RUNTIMES, *EXAMPLES)} | {"mistaken": mistaken}
    for name, manifest in manifests.items():
        version = "V1beta1" if manifest["kind"] == "InferenceService" else "V1alpha1"
        try:
            check_model(manifest, version + manifest["kind"], name)
        except AssertionError as error:
            found[name] = str(error)
    print(json.dumps(found))


@pytest.mark.extended
def test_kserve_accepts_all_but_the_one_with_a_mistake() -> None:
    program = "import unit.scripts.test_kserve_runtimes as here; here.print_objections()"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("tests", "scripts"))}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
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


def test_both_kinds_of_runtime_are_the_same() -> None:
    for name in ("", "-openvino"):
        cluster, namespaced = (
            load(DEPLOY / "kserve" / "runtime" / f"{kind}{name}.yaml") for kind in ("cluster", "namespace")
        )
        assert (cluster["kind"], namespaced["kind"]) == ("ClusterServingRuntime", "ServingRuntime")
        assert cluster["spec"] == namespaced["spec"]


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
