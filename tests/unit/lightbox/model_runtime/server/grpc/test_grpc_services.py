"""The gRPC services beside calls that take all threads."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc

from lightbox.model_runtime.server.grpc import grpc_server
from lightbox.model_runtime.server.grpc.grpc_services import MODEL_SERVICE, PREDICTION_SERVICE, Services
from lightbox.model_runtime.server.rest.http_server import LOOPBACK
from lightbox.model_runtime.wire.messages import model_management_pb2, predict_pb2
from lightbox.model_runtime.wire.status import invalid
from lightbox.tools.harness.ports import free_ports
from lightbox.transports.model_status import status_method
from support.patience import PATIENCE


class HeldCalls:
    """Calls that wait until the test lets them end."""

    def __init__(self) -> None:
        self.came, self.leave = threading.Semaphore(0), threading.Event()
        self.core = SimpleNamespace(status=lambda spec: [])

    def counted(self, *_: object) -> nullcontext[None]:
        return nullcontext()

    def predict(self, *_: object) -> NoReturn:
        self.came.release()
        self.leave.wait(PATIENCE)
        raise invalid("held")


def test_the_status_is_reported_while_calls_take_all_threads(tmp_path: Path) -> None:
    calls: Any = HeldCalls()
    server = grpc_server.create([Services(calls)], 2, [])
    grpc_server.bind(server, "", 0, str(tmp_path / "socket"), None)
    server.start()
    with grpc.insecure_channel(f"unix:{tmp_path}/socket") as channel:
        predict = channel.unary_unary(f"/{PREDICTION_SERVICE}/Predict")
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        held = [predict.future(request.SerializeToString(), timeout=PATIENCE) for _ in range(2)]
        for _ in held:
            assert calls.came.acquire(timeout=PATIENCE)
        assert status_method(channel)("m", timeout=PATIENCE) == {}
        assert not any(call.done() for call in held)
        calls.leave.set()
        assert {call.code() for call in held} == {grpc.StatusCode.INVALID_ARGUMENT}
    server.stop(None).wait(PATIENCE)


def test_a_reload_may_be_taken_over_the_socket_alone(tmp_path: Path) -> None:
    calls: Any = HeldCalls()
    port = free_ports()
    calls.core.reload = lambda *_: None
    outcomes = []
    asked = model_management_pb2.ReloadConfigRequest(config={"model_config_list": {}}).SerializeToString()
    for over_tcp in (True, False):
        server = grpc_server.create([Services(calls, reload_over_tcp=over_tcp)], 2, [])
        grpc_server.bind(server, LOOPBACK, port, str(tmp_path / "socket"), None)
        server.start()
        for target in (f"unix:{tmp_path}/socket", f"{LOOPBACK}:{port}"):
            with grpc.insecure_channel(target) as channel:
                reload = channel.unary_unary(f"/{MODEL_SERVICE}/HandleReloadConfigRequest")
                outcomes.append(reload.future(asked, timeout=PATIENCE, wait_for_ready=True).code())
        server.stop(None).wait(PATIENCE)
    taken, refused = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
    assert outcomes == [taken, taken, taken, refused]
