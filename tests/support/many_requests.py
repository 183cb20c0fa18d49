"""Thousands of requests to a model server, and the growth of its memory."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import grpc
import psutil

from lightbox.model_runtime.wire.messages import predict_pb2
from support.model_server import ModelServer, golden_server
from support.patience import PATIENCE


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


def growth(folder: Path, early: int, late: int) -> float:
    """Send `late` requests to a new model server; return its final resident memory divided by that after `early`."""
    with contextmanager(golden_server)(folder) as server, grpc.insecure_channel(server.grpc_address) as channel:
        memory = psutil.Process(server.process.pid).memory_info
        resident = []
        for count, request in enumerate(islice(requests(1), late), 1):
            send(server, channel, *request)
            if count in (early, late):
                resident.append(memory().rss)
        return resident[1] / resident[0]
