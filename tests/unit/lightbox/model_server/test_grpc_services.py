"""The gRPC services beside calls that take all threads."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc

from lightbox.model_server import grpc_server
from lightbox.model_server.grpc_services import PREDICTION_SERVICE, Services
from lightbox.tfs_wire.messages import predict_pb2
from lightbox.tfs_wire.status import invalid
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
