"""One predict call to the model ``held`` by each way of TensorFlow Serving's APIs, as its clients make it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import requests

from lightbox.model_runtime.wire.messages import predict_pb2
from support.fakes import png
from support.patience import PATIENCE
from support.stack import Stack

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
PATH = "/v1/models/held:predict"
DT_UINT8 = 4


@dataclass(frozen=True)
class Reply:
    """The result of a call: 200 or OK, or the refusal's status and Retry-After."""

    status: int | str
    retry_after: str | None
    text: str

    @property
    def served(self) -> bool:
        """Whether the model answered."""
        return self.status in (200, "OK")

    @property
    def again(self) -> bool:
        """Whether the response only asks for a retry."""
        return self.status == "UNAVAILABLE" or (self.status == 503 and int(self.retry_after or 0) >= 1)


def pixels(red: int) -> Any:
    """Return an image of 8 by 8 pixels; above 0 its red says to wait at the door."""
    return np.full((8, 8, 3), (red, 0, 0), np.uint8)


def by_rows(stack: Stack, red: int) -> Reply:
    """Send prepared tensors over REST: the request is forwarded unchanged."""
    return _post(stack, {"instances": [pixels(red).tolist()]})


def by_image(stack: Stack, red: int) -> Reply:
    """Send an encoded image over REST: it is decoded here."""
    return _post(stack, {"instances": [{"b64": base64.b64encode(png(pixels(red))).decode()}]})


def by_grpc(stack: Stack, red: int) -> Reply:
    """Send a PredictRequest to PredictionService."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "held"
    tensor = request.inputs["image"]
    tensor.dtype = DT_UINT8
    for size in (1, 8, 8, 3):
        tensor.tensor_shape.dim.add().size = size
    tensor.tensor_content = pixels(red).tobytes()
    with grpc.insecure_channel(f"127.0.0.1:{stack.environ[GRPC_PORT]}") as channel:
        predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        try:
            predict(request.SerializeToString(), timeout=PATIENCE)
        except grpc.RpcError as error:
            return Reply(error.code().name, None, error.details())
    return Reply("OK", None, "")


def _post(stack: Stack, body: object) -> Reply:
    answer = requests.post(stack.url + PATH, json=body, timeout=PATIENCE)
    return Reply(answer.status_code, answer.headers.get("Retry-After"), answer.text)


WAYS: dict[str, Callable[[Stack, int], Reply]] = {"rows": by_rows, "image": by_image, "grpc": by_grpc}
