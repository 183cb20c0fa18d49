"""Calls over the local transport, and a server that doubles their input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lightbox.base.request_context import RequestContext
from lightbox.model.spec import ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.server.local_server import LocalServer, Predict
from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.local import LocalTransport
from support.patience import PATIENCE

SIGNATURE = SignatureSpec(
    "net", 1, "serving_default", {"x": TensorSpec("x", "float32", (None,))}, {"y": TensorSpec("y", "float32", (None,))}
)
OVER_GRPC = np.array([7.0], np.float32)


def call(size: int = 3) -> ModelCall:
    return ModelCall(SIGNATURE, {"x": np.arange(size, dtype=np.float32)})


def doubled(request: memoryview, _: float) -> bytes:
    message = predict_pb2.PredictRequest.FromString(bytes(request))
    return tensor_proto.serialize({"y": tensor_proto.decode(message.inputs["x"]) * 2}, b"")


@contextmanager
def serving(path: Path, predict: Predict = doubled, most: int = 8) -> Iterator[LocalServer]:
    server = LocalServer(str(path), most, predict)
    server.start()
    try:
        yield server
    finally:
        server.stop(PATIENCE)


def asked(
    transport: LocalTransport, size: int = 3, context: RequestContext | None = None
) -> tuple[str | None, list[float]]:
    """Return the transport of a call and its result."""
    context = context or RequestContext(PATIENCE)
    found = transport.predict(call(size), context)["y"]
    assert not (found.size and found.flags.writeable)
    return context.transport, found.tolist()


@contextmanager
def falling_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTransport]:
    """A local transport whose gRPC fallback returns 7."""

    def send(_: GrpcTransport, __: bytes, ___: SignatureSpec, context: RequestContext) -> bytes:
        context.transport = "grpc"
        return tensor_proto.serialize({"y": OVER_GRPC}, b"")

    monkeypatch.setattr(GrpcTransport, "send", send)
    made = LocalTransport(path, "127.0.0.1:1")
    yield made
    made.close()
