"""The other ways in which the image is run, each in a container of its own; each raises CheckFailed."""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import grpc
import numpy as np

from docker_image.checks import PUBLIC_PORT, CheckFailed, expect, listening, stops_cleanly, writes_nothing
from docker_image.container import ANSWER_SECONDS, HARDENED, Container, ContainerFailed, running
from docker_image.digits import digits
from docker_image.engine import Engine
from lightbox.core.request_context import RequestContext
from lightbox.deployment.package import package
from lightbox.features.open_inference.grpc_messages import INFERENCE_SERVICE, message_class
from lightbox.model.archives import unpack

GRPC_PORT = 8081
SAGEMAKERS_PORT, SAGEMAKERS_RANGE = 8085, (21000, 21999)
MAX_MB, UNPACK_SECONDS = 100, 300
SDKS_PORT = 8501
HANDLER, SDKS_HANDLER = Path(__file__).with_name("archive"), Path(__file__).with_name("archive_sdk")
AS_SAGEMAKER = {
    "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits",
    "SAGEMAKER_BIND_TO_PORT": str(SAGEMAKERS_PORT),
    "SAGEMAKER_SAFE_PORT_RANGE": "{}-{}".format(*SAGEMAKERS_RANGE),
    "SAGEMAKER_GUNICORN_WORKERS": "1",
    # What the SageMaker Python SDK adds, and nothing here reads.
    "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_REGION": "eu-central-1",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
}

AS_SAGEMAKERS_SDK = {
    "SAGEMAKER_BIND_TO_PORT": str(SDKS_PORT),
    # What local mode sets by itself.
    "LOCAL_PYTHON": platform.python_version(),
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_SERVE_SECRET_KEY": "of-this-run",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
}
SDKS_HEADERS = {"Content-Type": "application/octet-stream", "Accept": "application/json"}

Way = Callable[[Engine, str, Path], str]
"""Runs an image with a folder of models in one way and returns what was seen."""


def with_a_writable_root(engine: Engine, image: str, models: Path) -> str:
    """Where everything could be written to, nothing outside /tmp is; no word is needed after the image's name."""
    with running(engine.docker, image, models, options=("--tmpfs=/tmp:exec", *engine.run_options)) as container:
        writes_nothing(container)
    return "nothing is written outside /tmp"


def with_the_open_inference_protocol(engine: Engine, image: str, models: Path) -> str:
    """With LIGHTBOX_KSERVE_GRPC_PORT the image answers gRPC on that port, hardened; nothing else but 8080 listens."""
    more = (f"--env=LIGHTBOX_KSERVE_GRPC_PORT={GRPC_PORT}", f"--publish=127.0.0.1::{GRPC_PORT}")
    images, labels = digits()
    with running(engine.docker, image, models, options=(*HARDENED, *more, *engine.run_options)) as container:
        found = [int(np.argmax(_infer(container, body))) for body in images]
        expect(found == labels.tolist(), f"over the Open Inference Protocol the digits {labels} are read as {found}")
        ports = {port for _, port in listening(container)}
        expect(ports == {PUBLIC_PORT, GRPC_PORT}, f"open ports: {ports}")
        stops_cleanly(container)
    return f"{len(labels)} images over gRPC on {GRPC_PORT}"


def as_sagemaker_runs_it(engine: Engine, image: str, models: Path) -> str:
    """A model.tar.gz with code/inference.py, unpacked to /opt/ml/model; AWS's variables; ``serve``."""
    options = tuple(f"--env={name}={value}" for name, value in AS_SAGEMAKER.items())
    images, labels = digits()
    with tempfile.TemporaryDirectory(dir=models.parent) as folder:
        unpacked = _unpack(package(models, HANDLER, Path(folder, "model.tar.gz")), Path(folder, "model"))
        run = running(
            engine.docker, image, unpacked, "serve", options=(*options, *engine.run_options), port=SAGEMAKERS_PORT
        )
        with run as container:
            answers = [container.invoke(body, "") for body in images]
            for wire in ("rest", "grpc"):
                found = [int(np.argmax(answer[wire])) for answer in answers]
                expect(found == labels.tolist(), f"the handler reads the digits {labels} over {wire} as {found}")
            expect(answers[0]["model"] == "digits", f"the handler's model is {answers[0]['model']}")
            ports = {port for _, port in listening(container)}
            expect(ports == {SAGEMAKERS_PORT, SAGEMAKERS_RANGE[0], SAGEMAKERS_RANGE[0] + 1}, f"open ports: {ports}")
            stops_cleanly(container)
    return f"{len(labels)} images through a handler of AWS's API, both wires"


def as_sagemakers_sdk_runs_it(engine: Engine, image: str, models: Path) -> str:
    """Local mode of the SageMaker Python SDK 3: port 8501, to which it posts, and a pair with what it pickled."""
    options = tuple(f"--env={name}={value}" for name, value in AS_SAGEMAKERS_SDK.items())
    images, labels = digits()
    with tempfile.TemporaryDirectory(dir=models.parent) as folder:
        model = Path(folder, "model")
        shutil.copytree(models / "digits" / "1", model / "1")
        shutil.copytree(SDKS_HANDLER, model / "code")
        (model / "shared_libs").mkdir()
        (model / "code" / "serve.pkl").write_bytes(cloudpickle.dumps(_schema()))
        run = running(
            engine.docker,
            image,
            model,
            "serve",
            options=(*options, *engine.run_options),
            port=SDKS_PORT,
            at="/opt/ml/model:rw",
        )
        with run as container:
            answers = [json.loads(container.send("POST", "/invocations", body, SDKS_HEADERS)) for body in images]
            found = [int(np.argmax(answer)) for answer in answers]
            expect(found == labels.tolist(), f"through the SDK's pair the digits {labels} are read as {found}")
            expect(SDKS_PORT in {port for _, port in listening(container)}, "nothing listens where the SDK asks")
            stops_cleanly(container)
    return f"{len(labels)} images on port {SDKS_PORT}, through a pickled schema"


def _schema() -> dict[str, Callable[[Any], Any]]:
    """Return functions that are pickled whole: the container has no module of ours to find them in."""

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


def without_a_package_of_a_handlers(engine: Engine, image: str, models: Path) -> str:
    """A handler that imports one of the large packages is refused, and told how the image comes to have it."""
    with tempfile.TemporaryDirectory(dir=models.parent) as folder:
        code = Path(folder, "code")
        code.mkdir()
        (code / "inference.py").write_text("from sklearn.preprocessing import scale\ndef handler(data, context): ...\n")
        unpacked = _unpack(package(models, code, Path(folder, "model.tar.gz")), Path(folder, "model"))
        try:
            with running(engine.docker, image, unpacked, "serve", options=(*HARDENED, *engine.run_options)):
                raise CheckFailed("a handler that imports scikit-learn starts without it")
        except ContainerFailed as refused:
            words = ("No module named 'sklearn'", "--build-arg HANDLER_PACKAGES=aws", "add the line scikit-learn to")
            expect(all(word in str(refused) for word in words), f"the refusal does not say how to have it: {refused}")
    return "refused, with the build argument and the line for requirements.txt"


def with_many_models(engine: Engine, image: str, models: Path) -> str:
    """SAGEMAKER_MULTI_MODEL: models are loaded, listed, asked and unloaded by requests."""
    options = ("--env=SAGEMAKER_MULTI_MODEL=true", *HARDENED, *engine.run_options)
    images, labels = digits()
    with running(engine.docker, image, models, "serve", options=options, at="/opt/ml/models:ro") as container:
        body = json.dumps({"model_name": "tens", "url": "/opt/ml/models/digits"}).encode()
        container.send("POST", "/models", body, {"Content-Type": "application/json"})
        listed = json.loads(container.send("GET", "/models"))["models"]
        expect([model["modelName"] for model in listed] == ["tens"], f"GET /models: {listed}")
        answer = json.loads(container.send("POST", "/models/tens/invoke", images[3], {"Content-Type": "image/png"}))
        found = int(np.argmax(answer["predictions"][0]))
        expect(found == labels[3], f"the digit {labels[3]} is read as {found}")
        container.send("DELETE", "/models/tens")
        expect(json.loads(container.send("GET", "/models"))["models"] == [], "a model is left after its unload")
    return "a model loaded, asked and unloaded"


WAYS: dict[str, tuple[Way, ...]] = {
    "lightbox": (
        with_a_writable_root,
        with_the_open_inference_protocol,
        as_sagemaker_runs_it,
        as_sagemakers_sdk_runs_it,
        without_a_package_of_a_handlers,
        with_many_models,
    ),
    "embedded": (with_a_writable_root,),
    "openvino": (with_a_writable_root,),
}
"""By the Dockerfile's stage."""


def _infer(container: Container, image: bytes) -> list[float]:
    request = message_class("inference.ModelInferRequest")(model_name="digits")
    request.inputs.add(name="input_tensor", datatype="BYTES", shape=[1]).contents.bytes_contents.append(image)
    with grpc.insecure_channel(container.address(GRPC_PORT)) as channel:
        call = channel.unary_unary(
            f"/{INFERENCE_SERVICE}/ModelInfer",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message_class("inference.ModelInferResponse").FromString,
        )
        answer = call(request, timeout=ANSWER_SECONDS, wait_for_ready=True)
    return list(np.frombuffer(answer.raw_output_contents[0], np.float32))


def _unpack(archive: Path, folder: Path) -> Path:
    unpack(archive, folder, str(archive), RequestContext(UNPACK_SECONDS), MAX_MB << 20)
    return folder
