"""The image of the unchanged Dockerfile, built here and run as it is meant to be run.

Where an engine with the base images is at hand it is used; root on Debian gets one for the length of the tests.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docker_image import checks
from docker_image.bill_of_materials import bill_of_materials
from docker_image.container import HARDENED, running
from docker_image.dockerfile import DOCKERFILE, REPOSITORY
from docker_image.engine import Engine, NoEngine, find_engine
from docker_image.inventory import inventory
from docker_image.sizes import layers
from docker_image.ways import WAYS, Way, as_sagemaker_runs_it
from lightbox.user_code.paths import WITH_BUILD_ARGUMENT
from support import s3
from support.model_files import FILES, dense, write_dense_as

TAG = f"lightbox:test-{os.getpid()}"
PAGE = REPOSITORY / "docs" / "image.md"
NOT_OURS = {"base image", "tensorflow_model_server"}
"""Layers whose sizes depend on whether the base images are the published ones."""
LARGEST_WITH_OPENVINO = 400e6
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    try:
        with find_engine() as found:
            yield found
            own = found.docker.run("images", "--format={{.Repository}}:{{.Tag}}", f"--filter=reference={TAG}*")
            found.docker.run("rmi", "--force", *own.split())
    except NoEngine as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    engine.build(TAG)
    return TAG


@pytest.fixture(scope="module")
def subject(engine: Engine, image: str, sample_models: Path) -> Iterator[checks.Subject]:
    options = (*HARDENED, checks.BOTH_WIRES, *engine.run_options)
    with running(engine.docker, image, sample_models, "serve", options=options) as container:
        yield checks.Subject(engine.docker, image, container, engine.real_model_server)


@pytest.mark.parametrize("check", checks.CHECKS["lightbox"], ids=lambda check: check.__name__)
def test_the_default_image(subject: checks.Subject, check: checks.Check) -> None:
    check(subject)


@pytest.mark.parametrize("way", WAYS["lightbox"], ids=lambda way: way.__name__)
def test_the_default_image_in_other_ways(engine: Engine, image: str, sample_models: Path, way: Way) -> None:
    way(engine, image, sample_models)


def test_a_second_build_gives_the_same_layers(engine: Engine, image: str) -> None:
    engine.build(f"{TAG}-again", "--no-cache")
    first, second = [engine.docker.inspect("{{json .RootFS.Layers}}", tag) for tag in (image, f"{TAG}-again")]
    assert json.loads(second) == json.loads(first)


def test_the_page_tells_the_sizes(engine: Engine, image: str) -> None:
    rows = dict(
        re.findall(r"^\| ([^|]+) \| ([\d.]+) \|", PAGE.read_text().partition("With `--target embedded`")[0], re.M)
    )
    ours = [layer for layer in layers(engine.docker, image) if layer.name not in NOT_OURS]
    assert {layer.name for layer in ours} <= rows.keys()
    for layer in ours:
        told = float(rows[layer.name])
        assert told == pytest.approx(layer.size / 1e6, rel=0.05, abs=0.5), f"make image prints {layer}, the page {told}"


def test_every_part_has_a_licence_and_is_in_the_bill_of_materials(engine: Engine, image: str) -> None:
    parts = inventory(engine.docker, image)
    names = {part.name for part in parts}
    assert {"nginx-light", "tini", "Flask", "numpy", "CPython", "tensorflow_model_server"} <= names
    assert all(part.licences for part in parts)
    bill = json.loads(bill_of_materials("lightbox", "0.1.0", parts))
    assert bill["bomFormat"] == "CycloneDX"
    assert {component["name"] for component in bill["components"]} == names
    assert all(component["version"] and component["purl"] for component in bill["components"])


def test_the_image_with_the_embedded_model_server(engine: Engine, sample_models: Path) -> None:
    tag = f"{TAG}-embedded"
    engine.build(tag, "--target=embedded")
    with running(engine.docker, tag, sample_models, options=(*HARDENED, checks.BOTH_WIRES)) as container:
        subject = checks.Subject(engine.docker, tag, container, real_model_server=False)
        for check in checks.CHECKS["embedded"]:
            check(subject)


def test_the_image_with_openvino(engine: Engine, sample_models: Path) -> None:
    """It has no TensorFlow, so it trusts the verdicts that the sample models bring along."""
    tag = f"{TAG}-openvino"
    engine.build(tag, "--target=openvino")
    size = sum(layer.size for layer in layers(engine.docker, tag))
    assert size < LARGEST_WITH_OPENVINO, f"{size / 1e6:.1f} MB"
    with running(engine.docker, tag, sample_models, options=(*HARDENED, checks.BOTH_WIRES)) as container:
        subject = checks.Subject(engine.docker, tag, container, real_model_server=False)
        for check in checks.CHECKS["openvino"]:
            check(subject)
            if check is checks.reads_digits_over_both_wires:
                assert "signature serving_default: openvino (6 answers are equal" in container.log


def test_the_image_with_openvino_reads_files_of_every_format(engine: Engine, tmp_path: Path) -> None:
    tag = f"{TAG}-openvino"
    engine.build(tag, "--target=openvino")
    tmp_path.chmod(0o755)
    for file in FILES:
        write_dense_as(tmp_path / file.partition(".")[2] / "1" / file)
    rows = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": rows}]}).encode()
    with running(engine.docker, tag, tmp_path, options=HARDENED) as container:
        for model in ("onnx", "xml", "tflite"):
            (output,) = json.loads(container.send("POST", f"/v2/models/{model}/infer", body))["outputs"]
            assert output["data"] == pytest.approx(dense(rows).ravel().tolist(), rel=1e-5)


def test_code_for_all_models_from_s3(engine: Engine, image: str, sample_models: Path) -> None:
    gateway = engine.docker.run("network", "inspect", "--format={{(index .IPAM.Config 0).Gateway}}", "bridge")
    with s3.serving(gateway) as environ:
        variables = environ | s3.universal() | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits"}
        options = tuple(f"--env={name}={value}" for name, value in variables.items())
        with running(
            engine.docker, image, sample_models, "serve", options=(*HARDENED, *options, *engine.run_options)
        ) as container:
            assert container.send("POST", "/invocations", b"1") == b"from S3"


def test_the_image_for_sagemaker(engine: Engine, image: str, sample_models: Path) -> None:
    """As docs/image.md builds it: as root, with the packages that handlers of AWS's container import."""
    tag = f"{TAG}-sagemaker"
    engine.build(tag, "--build-arg=RUN_AS=0:0", "--build-arg=HANDLER_PACKAGES=aws")
    assert engine.docker.inspect("{{.Config.User}}", tag) == "0:0"
    as_sagemaker_runs_it(engine, tag, sample_models)
    imports = f"import {', '.join(WITH_BUILD_ARGUMENT)}, scipy.stats, sklearn.ensemble, pandas.testing"
    engine.docker.run("run", "--rm", "--read-only", "--entrypoint=python3", tag, "-c", imports)
    (told,) = re.findall(r"HANDLER_PACKAGES=aws` adds ([\d.]+) MB", PAGE.read_text())
    added = packages_layer(engine, tag) - packages_layer(engine, image)
    assert float(told) == pytest.approx(added / 1e6, rel=0.05)


def packages_layer(engine: Engine, tag: str) -> int:
    """Return the bytes of the layer with Python's packages."""
    return next(layer.size for layer in layers(engine.docker, tag) if layer.name == "Python packages")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="hadolint comes as a binary for x86-64 only")
def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
