"""Another user of the machine, or a container of the same pod: it reaches what callers reach, and replaces no model.

For the real binary's ports, see tests/e2e/test_open_ports.py.
"""

from __future__ import annotations

from pathlib import Path

import grpc
import psutil
import pytest
import requests

from e2e.test_open_ports import ANSWER, BODY, USES_ALL, listening, models, over, said
from lightbox.model_runtime.wire.messages import model_management_pb2
from support.model_server import MODELS
from support.patience import PATIENCE
from support.stack import Stack, running


def reload(target: str, name: str) -> grpc.StatusCode:
    """Ask a model server to serve another model under a name; return the status."""
    request = model_management_pb2.ReloadConfigRequest()
    folder = str(MODELS / "image_mean")
    request.config.model_config_list.config.add(name=name, base_path=folder, model_platform="tensorflow")
    with grpc.insecure_channel(target) as channel:
        method = channel.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        try:
            method(request.SerializeToString(), timeout=PATIENCE)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_default_start_listens_for_callers_alone(stack: Stack) -> None:
    ports = {stack.port, int(stack.environ["LIGHTBOX_KSERVE_GRPC_PORT"])}
    assert listening(stack) == {(False, port) for port in ports}
    assert "the model server; " not in said(stack)
    assert "unix sockets: gRPC and REST of the model server" in said(stack)
    tree = psutil.Process(stack.process.pid).children(recursive=True)
    sockets = [str(one.laddr) for process in tree for one in process.net_connections("unix")]
    assert not [address for address in sockets if address.startswith(("@", "\0"))]  # anybody may take such a name


@pytest.mark.extended
def test_no_neighbour_replaces_a_model_where_a_handler_needs_ports(tmp_path: Path) -> None:
    """In multi-model mode the ports are open for a handler that is loaded later."""
    root = models(tmp_path / "models", plain="")
    with running(root, tmp_path / "run", SAGEMAKER_MULTI_MODEL="true", LIGHTBOX_TFS_API="true") as stack:
        _, *inside = stack.ports
        assert listening(stack) == {(False, stack.port), *((True, port) for port in inside)}
        assert said(stack).count("a model that is loaded later may have AWS's handlers") == 2
        models(root, calls=USES_ALL)
        loaded = requests.post(f"{stack.url}/models", json={"model_name": "calls", "url": "calls"}, timeout=PATIENCE)
        assert loaded.status_code == 200, loaded.text
        for address in ("127.0.0.1", "[::1]"):
            assert reload(f"{address}:{inside[0]}", "calls") == grpc.StatusCode.PERMISSION_DENIED
        assert stack.invoke(BODY, "/models/calls/invoke").json() == [ANSWER, True]
        assert stack.invoke(BODY, "/v1/models/calls:predict").json() == ANSWER


@pytest.mark.extended
def test_all_transports_work_without_a_port(tmp_path: Path) -> None:
    with running(models(tmp_path / "models", half=""), tmp_path / "run", LIGHTBOX_TFS_API="true") as stack:
        for lost in (False, True):
            assert listening(stack) == {(False, stack.port)}
            for wire in ("local", "grpc", "rest"):
                answer = over(stack, wire)
                assert (answer.json(), answer.headers["Server-Timing"][-len(wire) - 1 : -1]) == (ANSWER, wire)
            assert stack.invoke(BODY, "/v1/models/half:predict").json() == ANSWER
            if not lost:
                stack.lose("model_server")
                stack.wait_for_ping(200)
