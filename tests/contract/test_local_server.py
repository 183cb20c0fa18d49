"""The embedded model server's local transport matches gRPC: every recorded Predict, errors, deadlines."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from contract.golden import replay
from contract.test_golden_transcripts import EXCLUDED, GRPC
from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.wire.local_frames import GREETING, REQUEST_HEADER, RESPONSE_HEADER, receive, share
from lightbox.model_runtime.wire.status import Code
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.local import LocalTransport
from support.held import Door, export_endless
from support.model_server import MODELS, ModelServer, golden_server
from support.parameters import each
from support.patience import PATIENCE

pytestmark = pytest.mark.extended

PREDICT = "/tensorflow.serving.PredictionService/Predict"
PREDICTS = [case for case in GRPC if case["method"] == PREDICT and ("grpc", case["id"]) not in EXCLUDED]
X = {"x": np.array([1.0], np.float32)}
LONG = "x" * 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def server(folder: Path, module_door: Door) -> Iterator[ModelServer]:
    """Run a server with the recorded models and one model that never answers."""
    export_endless(folder / "endless", module_door)
    more = f'config {{ name: "endless" base_path: "{folder}/endless" model_platform: "tensorflow" }}'
    yield from golden_server(folder, f"--local_socket_path={folder}/wire", more=more)


def ask(folder: Path, request: bytes, seconds: float = PATIENCE) -> tuple[Code, bytes]:
    """Send bytes over a new connection. Return the code and the message."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(f"{folder}/wire")
        assert receive(client, len(GREETING)) == GREETING
        with share(client, 1 << 16) as memory:
            if is_shared := len(request) <= len(memory):
                memory[: len(request)] = request
            client.sendall(REQUEST_HEADER.pack(0, len(request), seconds) + (b"" if is_shared else request))
            code, size = RESPONSE_HEADER.unpack(receive(client, RESPONSE_HEADER.size))
            return Code(code), bytes(receive(client, size))


@pytest.mark.usefixtures("patient_replay")
@each("case", PREDICTS)
def test_every_recorded_predict(
    server: ModelServer, folder: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    over_grpc = replay.call_grpc

    def over_the_local_wire(target: str, asked: dict[str, Any], models: str = "/models") -> dict[str, Any]:
        if asked["method"] != PREDICT:
            return dict(over_grpc(target, asked, models))
        parts = asked.get("request_parts")
        request = base64.b64decode(asked["request_base64"]) if parts is None else replay.expand(parts)
        code, message = ask(folder, request)
        failed = code is not Code.OK
        return {
            "code": code.name,
            "details": message.decode().replace(models, "/models") if failed else "",
            "response": None if failed else message,
        }

    rest = f"127.0.0.1:{server.rest_port}"
    with monkeypatch.context() as patch:
        patch.setattr(replay, "call_grpc", over_the_local_wire)
        assert replay.check_grpc(server.grpc_address, rest, case, str(MODELS)) is None


def test_bytes_that_are_no_message_fail_as_over_grpc(server: ModelServer, folder: Path) -> None:
    garbage = b"\xff\xff\xff"
    with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(PREDICT)(garbage, timeout=PATIENCE)
    code, message = ask(folder, garbage)
    assert (code.name, message.decode()) == (caught.value.code().name, caught.value.details())


@pytest.mark.parametrize(
    ("model", "version", "inputs", "outputs", "seconds"),
    [
        ("half_plus_two", 1, X, (), PATIENCE),
        ("half_plus_two", 1, {"x": np.arange(500_000, dtype=np.float32)}, (), PATIENCE),
        ("half_plus_two", 99, X, (), PATIENCE),
        ("nowhere", 1, X, (), PATIENCE),
        ("half_plus_two", 1, {"wrong": X["x"]}, (), PATIENCE),
        ("half_plus_two", 1, {LONG: X["x"]}, (), PATIENCE),
        ("half_plus_two", 1, {"x": np.array(["a"], object)}, (), PATIENCE),
        ("half_plus_two", 1, X, ("ü",), PATIENCE),
        ("endless", 1, {"x": np.array([1])}, (), 0.3),
    ],
    ids=["small", "large", "version", "model", "input", "long text", "dtype", "output", "deadline"],
)
def test_transports_agree(
    server: ModelServer,
    folder: Path,
    door: Door,
    model: str,
    version: int,
    inputs: dict[str, np.ndarray[Any, Any]],
    outputs: tuple[str, ...],
    seconds: float,
) -> None:
    spec = SignatureSpec(model, version, "serving_default", {}, {"y": TensorSpec("y", "float32", None)})
    transports = (
        GrpcTransport(server.grpc_address),
        LocalTransport(folder / "wire", server.grpc_address),
    )
    found = []
    for transport, wire in zip(transports, ("grpc", "local"), strict=True):
        door.shut()
        while True:
            context = RequestContext(seconds)
            reply = answered(transport, ModelCall(spec, inputs, outputs), context)
            if model != "endless" or door.came:
                break
            seconds *= 2  # the deadline passed before the call reached the model
        found.append(reply)
        assert context.transport == wire
        transport.close()
    assert found[0] == found[1]


def answered(transport: GrpcTransport, call: ModelCall, context: RequestContext) -> list[tuple[str, Any]]:
    try:
        return [(name, array.tolist()) for name, array in transport.predict(call, context).items()]
    except LightboxError as error:
        return [(type(error).__name__, error.message)]
