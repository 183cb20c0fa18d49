"""The image of the unchanged Dockerfile, built here and run in each supported way.

It uses an existing engine that has the base images; otherwise root on Debian gets a private engine for the tests.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import grpc
import numpy as np
import pytest
import requests
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from docker_image import structure
from docker_image.__main__ import check
from docker_image.container import (
    BOTH_TRANSPORTS,
    HARDENED,
    PATIENCE,
    SEVEN,
    TRANSPORTS,
    Container,
)
from docker_image.docker import DOCKERFILE, REPOSITORY, Engine
from docker_image.engine import NoEngine, find_engine
from docker_image.parts import bill_of_materials, parts
from docker_image.sizes import MODEL_SERVER, layers
from lightbox.base.request_context import RequestContext
from lightbox.features.open_inference.grpc.messages import INFERENCE_SERVICE, message_class
from lightbox.features.page import FILES as PAGE_FILES
from lightbox.model_files.archives import unpack
from lightbox.tools.deploy.package import package
from lightbox.user_code.paths import WITH_BUILD_ARGUMENT
from support import s3
from support.model_files import FILES, dense, write_dense_as
from support.stack import free_port

TAG = f"lightbox:test-{os.getpid()}"
PAGE = REPOSITORY / "docs" / "image.md"
NOT_OURS = {"base image", MODEL_SERVER}
"""Layers whose sizes depend on whether the base images are the published ones."""
PAGE_IN_IMAGE = "/opt/lightbox/container/lightbox/features/page/files"
EVERY_FILE = "find /usr/local -printf '%p %l %y %m %U:%G %T@\\n' -type f -exec sha256sum {} +"
HANDLERS = Path(__file__).with_name("handlers")
HTTP, GRPC, REST = 8080, 8081, 8501
SAGEMAKER = 8085
SAGEMAKERS_RANGE = (21000, 21999)
AS_SAGEMAKER = {
    "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits",
    "SAGEMAKER_BIND_TO_PORT": str(SAGEMAKER),
    "SAGEMAKER_SAFE_PORT_RANGE": "{}-{}".format(*SAGEMAKERS_RANGE),
    "SAGEMAKER_GUNICORN_WORKERS": "1",
    # The SageMaker Python SDK adds these; Lightbox does not read them.
    "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_REGION": "eu-central-1",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
}
AS_SAGEMAKERS_SDK = {
    "SAGEMAKER_BIND_TO_PORT": str(REST),
    # Local mode sets these itself.
    "LOCAL_PYTHON": platform.python_version(),
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_SERVE_SECRET_KEY": "of-this-run",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
}
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    try:
        with find_engine() as found:
            yield found
            own = found.run("images", "--format={{.Repository}}:{{.Tag}}", f"--filter=reference={TAG}*")
            found.run("rmi", "--force", *own.split())
    except NoEngine as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    engine.build(TAG)
    return TAG


@pytest.fixture(scope="module")
def models(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits model alone, as each container loads all of a folder, with the result of comparing engines."""
    folder = tmp_path_factory.mktemp("models")
    folder.chmod(0o755)
    shutil.copytree(sample_models / "digits", folder / "digits")
    command = [sys.executable, "-m", "lightbox.model_runtime.engines", "--write", str(folder / "digits" / "1")]
    subprocess.run(command, check=True)
    return folder


@pytest.mark.parametrize("stage", structure.FILES)
def test_every_image_holds_what_is_declared_serves_and_stops(engine: Engine, models: Path, stage: str) -> None:
    tag = f"{TAG}-{stage}"
    engine.build(tag, f"--target={stage}")
    log = check(engine, tag, stage, models)
    if stage == "openvino":  # without TensorFlow, it trusts the results from a machine with TensorFlow
        assert "signature serving_default: openvino (OpenVINO matches TensorFlow on 6 test inputs" in log


def test_what_is_declared_otherwise_is_reported(
    engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = structure.COMMON.read_text().replace("1000:1000", "0:0").replace("[0-3]", "[4-9]").replace("Apache", "MIT")
    (tmp_path / "other.yaml").write_text(text)
    monkeypatch.setitem(structure.FILES, "embedded", (tmp_path / "other.yaml",))
    problems = structure.problems(engine, image, "embedded")
    assert [problem.partition(": expected")[0] for problem in problems] == [
        "user",
        "label org.opencontainers.image.licenses",
        "the C library can load the resize",
    ]


def test_hardened_it_listens_as_documented_and_all_protocols_agree(engine: Engine, image: str, models: Path) -> None:
    request = message_class("inference.ModelInferRequest")(model_name="digits")
    request.inputs.add(name="input_tensor", datatype="BYTES", shape=[1]).contents.bytes_contents.append(SEVEN)
    address = f"127.0.0.1:{free_port()}"
    more = (BOTH_TRANSPORTS, f"--env=LIGHTBOX_KSERVE_GRPC_PORT={GRPC}", f"--publish={address}:{GRPC}")
    with Container(engine, image, models, "serve", options=(*HARDENED, *more)) as container:
        found = [
            container.invoke(f"tfs-model-name=digits,tfs-transport={transport}")["predictions"]
            for transport in TRANSPORTS
        ]
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(
                f"/{INFERENCE_SERVICE}/ModelInfer",
                request_serializer=type(request).SerializeToString,
                response_deserializer=message_class("inference.ModelInferResponse").FromString,
            )
            answer = call(request, timeout=PATIENCE, wait_for_ready=True)
        found.append([np.frombuffer(answer.raw_output_contents[0], np.float32)])
        for scores in found:
            assert np.argmax(scores) == 7
            np.testing.assert_allclose(scores, found[0], rtol=1e-4, atol=1e-6)
        assert ports(container) == {HTTP, GRPC, REST}
        # The real binary binds its REST port on all interfaces.
        assert ports(container, outward=True) <= {HTTP, GRPC, *([REST] if engine.real_model_server else [])}
        there = container.execute("find", PAGE_IN_IMAGE, "-type", "f", "-readable", "-printf", "%P ").split()
        assert {*there} == {str(path.relative_to(PAGE_FILES)) for path in PAGE_FILES.rglob("*") if path.is_file()}
        assert container.stop() == 0, container.log


def test_nothing_is_written_outside_of_tmp(engine: Engine, models: Path) -> None:
    """In the image with both engines; all three serve with a file system that is only read, where they are checked."""
    tag = f"{TAG}-embedded"
    engine.build(tag, "--target=embedded")
    with Container(engine, tag, models, options=("--tmpfs=/tmp:exec",)) as container:
        container.invoke("tfs-model-name=digits")
        assert ports(container) == {HTTP}
        mounts = ["/tmp", *container.inspect("{{range .Mounts}}{{.Destination}} {{end}}").split()]
        paths = [line.split(maxsplit=1)[1] for line in engine.run("diff", container.name).splitlines()]
        changed = [path for path in paths if not any(f"{m}/".startswith(f"{path}/") for m in mounts)]
        assert not changed
        assert not container.execute("ls", "-A", "/dev/shm")


def test_as_sagemaker_runs_it(engine: Engine, image: str, models: Path, tmp_path: Path) -> None:
    as_sagemaker_runs_it(engine, image, models, tmp_path)


def as_sagemaker_runs_it(engine: Engine, tag: str, models: Path, folder: Path) -> None:
    """A model.tar.gz with code/inference.py, unpacked to /opt/ml/model; AWS's variables; ``serve``."""
    unpacked = packed(models, HANDLERS / "aws", folder)
    with Container(engine, tag, unpacked, "serve", options=environment(AS_SAGEMAKER), port=SAGEMAKER) as container:
        answer = container.invoke()
        assert [np.argmax(answer[transport]) for transport in TRANSPORTS] == [7, 7]
        assert answer["model"] == "digits"
        assert ports(container) == {SAGEMAKER, SAGEMAKERS_RANGE[0], SAGEMAKERS_RANGE[0] + 1}
        assert container.stop() == 0, container.log


def test_as_sagemakers_sdk_runs_it(engine: Engine, image: str, models: Path, tmp_path: Path) -> None:
    """Local mode of the SageMaker Python SDK 3: it posts to port 8501, with a pair of pickled functions."""
    tmp_path.chmod(0o755)
    shutil.copytree(models / "digits" / "1", tmp_path / "1")
    shutil.copytree(HANDLERS / "sdk", tmp_path / "code")
    (tmp_path / "shared_libs").mkdir()
    (tmp_path / "code" / "serve.pkl").write_bytes(cloudpickle.dumps(schema()))
    options, at = environment(AS_SAGEMAKERS_SDK), "/opt/ml/model:rw"
    with Container(engine, image, tmp_path, "serve", options=options, port=REST, at=at) as container:
        headers = {"Content-Type": "application/octet-stream", "Accept": "application/json"}
        assert np.argmax(container.send("POST", "/invocations", SEVEN, headers)) == 7
        assert REST in ports(container)
        assert container.stop() == 0, container.log


def schema() -> dict[str, Callable[[Any], Any]]:
    """Return functions that pickle by value: the container lacks our modules."""

    def read(body: bytes) -> Any:
        from io import BytesIO

        import numpy
        from PIL import Image

        pixels = numpy.asarray(Image.open(BytesIO(body)).convert("RGB"), numpy.float32) / numpy.float32(255)
        return pixels[numpy.newaxis].tolist()

    def write(predictions: Any) -> bytes:
        import json

        return json.dumps(predictions[0]).encode()

    for function in (read, write):
        function.__module__ = "__main__"
    return {"read": read, "write": write}


def test_many_models(engine: Engine, image: str, models: Path) -> None:
    options = ("--env=SAGEMAKER_MULTI_MODEL=true", *HARDENED)
    with Container(engine, image, models, "serve", options=options, at="/opt/ml/models:ro") as container:
        container.send("POST", "/models", b'{"model_name": "tens", "url": "/opt/ml/models/digits"}')
        assert [model["modelName"] for model in container.send("GET", "/models")["models"]] == ["tens"]
        answer = container.send("POST", "/models/tens/invoke", SEVEN, {"Content-Type": "image/png"})
        assert np.argmax(answer["predictions"][0]) == 7
        container.send("DELETE", "/models/tens")
        assert container.send("GET", "/models")["models"] == []


def test_the_page_shows_the_sizes(engine: Engine, image: str) -> None:
    rows = dict(
        re.findall(r"^\| ([^|]+) \| ([\d.]+) \|", PAGE.read_text().partition("With `--target embedded`")[0], re.M)
    )
    ours = {name: size for name, size in layers(engine, image).items() if name not in NOT_OURS}
    assert ours.keys() <= rows.keys()
    for name, size in ours.items():
        reply = float(rows[name])
        assert reply == pytest.approx(size / 1e6, rel=0.05, abs=0.5), (
            f"make image prints {name} {size}, the page {reply}"
        )


def test_every_part_has_a_licence_and_is_in_the_bill_of_materials(engine: Engine, image: str) -> None:
    found = parts(engine, image)
    names = {each.name for each in found}
    assert {"nginx-light", "tini", "Flask", "numpy", "CPython", "tensorflow_model_server"} <= names
    assert all(each.licenses for each in found)
    text = bill_of_materials("lightbox", "0.1.0", found)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    assert {component["name"] for component in bill["components"]} == names
    assert all(component["version"] and component["purl"] for component in bill["components"])


def test_the_image_with_openvino_reads_files_of_every_format(engine: Engine, tmp_path: Path) -> None:
    tag = f"{TAG}-openvino"
    engine.build(tag, "--target=openvino")
    tmp_path.chmod(0o755)
    for file in FILES:
        write_dense_as(tmp_path / file.partition(".")[2] / "1" / file)
    rows = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": rows}]}).encode()
    with Container(engine, tag, tmp_path) as container:
        for model in ("onnx", "xml", "tflite"):
            (output,) = container.send("POST", f"/v2/models/{model}/infer", body)["outputs"]
            assert output["data"] == pytest.approx(dense(rows).ravel().tolist(), rel=1e-5)


def test_code_for_all_models_from_s3(engine: Engine, image: str, models: Path) -> None:
    gateway = engine.run("network", "inspect", "--format={{(index .IPAM.Config 0).Gateway}}", "bridge")
    with s3.serving(gateway) as environ:
        variables = environ | s3.universal() | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits"}
        options = (*HARDENED, *environment(variables))
        with Container(engine, image, models, "serve", options=options) as container:
            assert requests.post(f"{container.url}/invocations", b"1", timeout=PATIENCE).text == "from S3"


def test_the_image_for_sagemaker(engine: Engine, image: str, models: Path, tmp_path: Path) -> None:
    """As built in docs/image.md: as root, with the packages that handlers of AWS's container import."""
    tag = f"{TAG}-sagemaker"
    engine.build(tag, "--no-cache", "--build-arg=RUN_AS=0:0", "--build-arg=HANDLER_PACKAGES=aws")
    assert engine.inspect("{{.Config.User}}", tag) == "0:0"
    as_sagemaker_runs_it(engine, tag, models, tmp_path)
    imports = f"import {', '.join(WITH_BUILD_ARGUMENT)}, scipy.stats, sklearn.ensemble, pandas.testing"
    engine.run("run", "--rm", "--read-only", "--entrypoint=python3", tag, "-c", imports)
    (documented,) = re.findall(r"HANDLER_PACKAGES=aws` adds ([\d.]+) MB", PAGE.read_text())
    with_them, without = (layers(engine, each)["Python packages"] for each in (tag, image))
    assert float(documented) == pytest.approx((with_them - without) / 1e6, rel=0.05)

    # A second build gives the same layers: but for those packages, with the same bytes, owners, modes and times.
    first, second = (json.loads(engine.inspect("{{json .RootFS.Layers}}", each)) for each in (image, tag))
    of_packages = -2  # before Lightbox's own files
    assert second.pop(of_packages) != first.pop(of_packages)
    assert second == first
    files, with_theirs = (
        {*engine.run("run", "--rm", "--entrypoint=sh", each, "-c", EVERY_FILE).splitlines()} for each in (image, tag)
    )
    assert len(files) > 1000
    assert files - with_theirs == set()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="hadolint comes as a binary for x86-64 only")
def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def environment(variables: dict[str, str]) -> tuple[str, ...]:
    """Return the options of ``docker run`` that set variables."""
    return tuple(f"--env={name}={value}" for name, value in variables.items())


def packed(models: Path, code: Path, folder: Path) -> Path:
    """Return the models with a handler, as SageMaker unpacks the archive of ``lightbox deploy package``."""
    archive, unpacked = package(models, code, folder / "model.tar.gz"), folder / "model"
    unpack(archive, unpacked, str(archive), RequestContext(PATIENCE), 100 << 20)
    folder.chmod(0o755)
    return unpacked


def ports(container: Container, outward: bool = False) -> set[int]:
    """Return the listening TCP ports of a container, from the kernel's tables; optionally without loopback ports."""
    found = set()
    for line in container.execute("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines():
        fields = line.split()
        if fields[3] == "0A":  # it listens
            address, _, port = fields[1].rpartition(":")
            # 127.x.y.z in little-endian words, also IPv4-mapped in IPv6, or ::1.
            loopback = address.endswith("7F") or address == "0" * 24 + "01000000"
            found |= set() if outward and loopback else {int(port, 16)}
    return found
