"""Listening sockets of all processes, with the real binary's command line.

For the embedded server, see tests/attacks/test_neighbours.py.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import requests

from support.held import Door
from support.models import copy_golden
from support.patience import PATIENCE
from support.real_binary import real_binary
from support.stack import Stack, running

pytestmark = pytest.mark.extended

PAIR = """
def input_handler(data, context): return data.read()
def output_handler(response, context): return response.content, "application/json"
"""
USES_ALL = (
    f"SECONDS = {PATIENCE}"
    + """
import json
import grpc
import requests
from tensorflow_serving.apis import get_model_status_pb2

def states(channel, name):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    call = channel.unary_unary(
        "/tensorflow.serving.ModelService/GetModelStatus",
        request_serializer=get_model_status_pb2.GetModelStatusRequest.SerializeToString,
        response_deserializer=get_model_status_pb2.GetModelStatusResponse.FromString,
    )
    return [item.state for item in call(request, timeout=SECONDS).model_version_status]

def handler(data, context):
    shared = states(context.channel, context.model_name)
    rest = requests.post(context.rest_uri, data=data.read(), timeout=SECONDS).json()
    with grpc.insecure_channel("localhost:" + context.grpc_port) as own:
        return json.dumps([rest, shared == states(own, context.model_name)]), "application/json"
"""
)
BODY = b'{"instances": [2.0, 4.0]}'
ANSWER = {"predictions": [4.0, 5.0]}


def models(folder: Path, **code: str) -> Path:
    """Lay out half_plus_two under each name with its source as code. An empty string means no code."""
    for name, source in code.items():
        copy_golden("half_plus_two", folder / name)
        if source:
            (folder / name / "code").mkdir()
            (folder / name / "code" / "inference.py").write_text(source)
    return folder


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a temporary folder with a path short enough for sockets: tmp_path contains the test's name."""
    return tmp_path_factory.mktemp("run")


def listening(stack: Stack) -> set[tuple[bool, int]]:
    """Return (is it on loopback, port) of every TCP socket on which a stack's process listens."""
    tree = [stack.process.pid, *(child.pid for child in psutil.Process(stack.process.pid).children(recursive=True))]
    found = [connection for pid in tree for connection in psutil.Process(pid).net_connections("tcp")]
    sockets = [one.laddr for one in found if one.status == psutil.CONN_LISTEN]
    # gRPC binds IPv4's loopback as ::ffff:127.0.0.1.
    return {(socket.ip.endswith(("127.0.0.1", "::1")), socket.port) for socket in sockets}


def over(stack: Stack, wire: str) -> requests.Response:
    return stack.invoke(BODY, X_Amzn_SageMaker_Custom_Attributes=f"tfs-transport={wire}")


def held_start(folder: Path) -> Door:
    """Make the program of ``real_binary`` wait at a door at its start from now on."""
    program, door = folder / "bin" / "tensorflow_model_server", Door(folder / "door")
    first, rest = program.read_text().split("\n", 1)
    program.write_text(f"{first}\nopen({str(door.folder / 'door')!r}, 'w').close()\n{rest}")
    return door


def said(stack: Stack) -> str:
    return "\n".join(line for line in stack.log.splitlines() if "listening: " in line)


def test_the_real_binary_has_no_port_by_default(tmp_path: Path, run: Path) -> None:
    root = models(tmp_path / "models", half="")
    with running(root, run, **real_binary(tmp_path)) as stack:
        assert listening(stack) == {(False, stack.port)}
        assert "the model server; " not in said(stack)
        answer = stack.invoke(BODY)
        assert over(stack, "grpc").json() == answer.json() == ANSWER
        assert answer.headers["Server-Timing"].endswith('wire;desc="grpc"')
        refused = over(stack, "rest")
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
        assert refused.json()["error"] == (
            "tfs-transport: expected grpc, got 'rest'; LIGHTBOX_TRANSPORT=grpc,rest turns it on"
        )
        page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
        assert 'state="AVAILABLE"' in page
        start = held_start(tmp_path)
        stack.processes("tensorflow_model_server")[0].kill()
        stack.wait_for_ping(503)
        start.open()
        stack.wait_for_ping(200)
        assert stack.invoke(BODY).json() == ANSWER


def test_aws_handlers_have_their_ports(tmp_path: Path, run: Path) -> None:
    root = models(tmp_path / "models", half="")
    (root / "code").mkdir()
    (root / "code" / "inference.py").write_text(USES_ALL)
    with running(root, run, **real_binary(tmp_path)) as stack:
        assert listening(stack) == {(False, port) for port in stack.ports}
        assert said(stack).count(f"{root}/code/inference.py has AWS's handlers, whose context has it") == 2
        assert stack.invoke(BODY).json() == [ANSWER, True]


def test_models_that_are_loaded_later_open_no_port(tmp_path: Path, run: Path) -> None:
    root = models(tmp_path / "models", plain="")
    with running(root, run, **real_binary(tmp_path), SAGEMAKER_MULTI_MODEL="true") as stack:
        models(root, pair=PAIR, calls=USES_ALL)
        for name in ("plain", "pair", "calls"):
            loaded = requests.post(f"{stack.url}/models", json={"model_name": name, "url": name}, timeout=PATIENCE)
            assert loaded.status_code == 200, loaded.text
        assert listening(stack) == {(False, stack.port)}
        for name in ("plain", "pair"):
            assert stack.invoke(BODY, f"/models/{name}/invoke").json() == ANSWER
        failed = stack.invoke(BODY, "/models/calls/invoke")
        assert (failed.status_code, failed.json()["code"]) == (500, "handler_failed")
        assert failed.json()["error"].startswith("context.rest_uri: the model server has no such port: start with")
        assert "LIGHTBOX_TRANSPORT=grpc,rest" in failed.json()["error"]


def test_below_a_long_path_no_more_ports_are_open(tmp_path: Path) -> None:
    root, long = models(tmp_path / "models", half=""), tmp_path / ("x" * 90)
    with running(root, long, **real_binary(tmp_path), LIGHTBOX_TRANSPORT="grpc") as stack:
        assert {port for loopback, port in listening(stack) if not loopback} == {stack.port}
        assert stack.invoke(BODY).json() == ANSWER
