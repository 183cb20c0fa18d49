"""The memory of a model server does not grow with its requests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import grpc
import psutil
import pytest

from lightbox.model_runtime.wire.messages import predict_pb2
from support.model_server import ModelServer, golden_server
from support.patience import PATIENCE

pytestmark = pytest.mark.timeout(3600)

EARLY, LATE = 1_000, 10_000


def requests(seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield (transport, model, body): all kinds, of changing sizes, a tenth of them faulty."""
    chance = random.Random(seed)
    while True:
        rows = chance.randrange(1, 200)
        model = chance.choice(["half_plus_two", "strings"])
        value: object = [1.5] * rows if model == "half_plus_two" else ["text"] * rows
        if chance.random() < 0.1:
            value = [None]
        signature = "single" if model == "strings" else ""
        if chance.random() < 0.5:
            body = json.dumps({"instances": value, "signature_name": signature}).encode()
            yield "rest", model, body
            continue
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        tensor = request.inputs["text" if model == "strings" else "x"]
        tensor.dtype = 7 if model == "strings" else 1
        tensor.tensor_shape.dim.add(size=rows)
        if model == "strings":
            tensor.string_val.extend([b"text"] * rows)
        else:
            tensor.tensor_content = b"\0" * (4 * rows - chance.choice([0] * 9 + [1]))
        yield "grpc", model, request.SerializeToString()


def send(server: ModelServer, channel: grpc.Channel, transport: str, model: str, body: bytes) -> None:
    if transport == "rest":
        server.rest("POST", f"/v1/models/{model}:predict", body)
        return
    try:
        channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(body, timeout=PATIENCE)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_ten_thousand_requests(tmp_path: Path) -> None:
    with contextmanager(golden_server)(tmp_path) as server, grpc.insecure_channel(server.grpc_address) as channel:
        memory = psutil.Process(server.process.pid).memory_info
        resident = []
        for count, request in enumerate(islice(requests(1), LATE), 1):
            send(server, channel, *request)
            if count in (EARLY, LATE):
                resident.append(memory().rss)
    assert resident[1] / resident[0] <= 1.05
