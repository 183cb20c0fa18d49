"""A version that the model server still loads gets a retry hint on every route; 404 is for what is not there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import requests

from lightbox.features.open_inference.grpc.messages import INFERENCE_SERVICE, message_class
from lightbox.model_runtime.wire.messages import get_model_metadata_pb2, model_pb2
from lightbox.transports.signature_cache import FRESH_SECONDS
from support.fakes import png
from support.held import Door
from support.models import export_constant
from support.patience import PATIENCE, poll
from support.real_binary import real_binary
from support.stack import Stack, free_port, running

pytestmark = pytest.mark.extended

IMAGE = png(np.full((8, 8, 3), (7, 0, 0)))
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
HELD, THERE, MISSING = 1, 3, 9
"""Versions: one whose load the test holds, one that is loaded before, and one that does not exist."""
SLOW_LOAD = """
from lightbox.model_runtime.server.servable_loader import Loader

def load(self, servable, load=Loader.load):
    if servable.version == {held}:
        {code}
    return load(self, servable)

Loader.load = load
sys.exit("""


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, Door]]:
    """Run three versions on a ``tensorflow_model_server`` that loads the oldest one when the door is open."""
    folder = tmp_path_factory.mktemp("loading")
    door = Door(folder / "door")
    for version in (HELD, 2, THERE):
        export_constant(folder / "models" / "m", version, 0.5)
    environ = real_binary(folder)
    program = folder / "bin" / "tensorflow_model_server"
    slow = SLOW_LOAD.format(held=HELD, code=door.code)
    program.write_text(program.read_text().replace("sys.exit(", slow))
    environ |= {"LIGHTBOX_TFS_API": "true", "LIGHTBOX_TRANSPORT": "grpc,rest"}
    environ["LIGHTBOX_KSERVE_GRPC_PORT"] = str(free_port())
    with running(folder / "models", folder / "run", **environ) as stack, door:
        yield stack, door


def http(path: str, method: str = "POST", **sent: Any) -> Callable[[Stack, int], str]:
    """Return a call over HTTP to a version; it returns its status, and whether a retry is asked for."""

    def call(stack: Stack, version: int) -> str:
        headers = {name: value.format(version) for name, value in sent.get("headers", {}).items()}
        address = stack.url + path.format(version)
        reply = requests.request(method, address, **sent | {"headers": headers}, timeout=PATIENCE)
        status = reply.json()["OriginalStatusCode"] if reply.status_code == 424 else reply.status_code
        return f"{status}{' again' if int(reply.headers.get('Retry-After', 0)) else ''}"

    return call


def image(transport: str, path: str = "/invocations") -> Callable[[Stack, int], str]:
    attributes = f"tfs-model-version={{}},tfs-transport={transport}"
    return http(path, data=IMAGE, headers={"Content-Type": "image/png", ATTRIBUTES: attributes})


def call_grpc(method: str, message: Callable[[int], Any]) -> Callable[[Stack, int], str]:
    """Return a gRPC call; it returns what HTTP would."""

    def call(stack: Stack, version: int) -> str:
        with grpc.insecure_channel(f"127.0.0.1:{stack.environ['LIGHTBOX_KSERVE_GRPC_PORT']}") as channel:
            try:
                channel.unary_unary(method)(message(version).SerializeToString(), timeout=PATIENCE)
            except grpc.RpcError as error:
                return {"UNAVAILABLE": "503 again", "NOT_FOUND": "404"}[error.code().name]
        return "200"

    return call


def _infer(version: int) -> Any:
    message = message_class("inference.ModelInferRequest")(model_name="m", model_version=str(version))
    message.inputs.add(name="image", datatype="BYTES", shape=[1], contents={"bytes_contents": [IMAGE]})
    return message


def _metadata(version: int) -> Any:
    message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    message.model_spec.CopyFrom(model_pb2.ModelSpec(name="m", version={"value": version}))
    return message


ROWS = {"instances": np.zeros((1, 8, 8, 3), int).tolist()}
DOCUMENT = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 8, 8, 3], "data": [0] * 192}]}
CALLS = {
    "grpc": image("grpc"),
    "rest": image("rest"),
    "boto3": image("grpc", "/endpoints/any/invocations"),
    "KServe": http("/v2/models/m/versions/{}/infer", json=DOCUMENT),
    "KServe metadata": http("/v2/models/m/versions/{}", "GET"),
    "KServe ready": http("/v2/models/m/versions/{}/ready", "GET"),
    "KServe gRPC": call_grpc(f"/{INFERENCE_SERVICE}/ModelInfer", _infer),
    "TensorFlow Serving": http("/v1/models/m/versions/{}:predict", json=ROWS),
    "TensorFlow Serving metadata": http("/v1/models/m/versions/{}/metadata", "GET"),
    "TensorFlow Serving gRPC": call_grpc("/tensorflow.serving.PredictionService/GetModelMetadata", _metadata),
}


def test_a_version_that_is_loading_gets_a_retry_hint_on_every_route(loading: tuple[Stack, Door]) -> None:
    stack, door = loading
    for _ in range(2):
        door.wait_for()
        for name, call in CALLS.items():
            found = [call(stack, version) for version in (THERE, HELD, MISSING)]
            assert found == ["200", "503 again", "404"], name
        door.open()
        for name, call in CALLS.items():
            assert any(call(stack, HELD) == "200" for _ in poll()), name
        door.shut()
        stack.lose("tensorflow_model_server")
        stack.wait_for_ping(200)
        time.sleep(FRESH_SECONDS)  # so long workers know what the server before this one had loaded
