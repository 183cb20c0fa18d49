"""Requests that must succeed, one for each interface; the expected answers are recorded before the first kill."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image
from urllib3 import encode_multipart_formdata

from benchmark.clients.infer import InferClient
from benchmark.photos import photo
from benchmark.servers import REPOSITORY, Address
from faults.answers import read
from faults.client import INFER, STREAM, Client, Request
from faults.history import History
from lightbox.features.open_inference.grpc.messages import message_class

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
JSON, IMAGE = "application/json", "application/x-image"
DIGIT = "digit image, grpc"


def requests(transports: Sequence[str]) -> list[Request]:
    """Return the good requests over all transports of a stack, with few that load the model server heavily."""
    seven, image, invocations = (REPOSITORY / "docs" / "samples" / "digit-7.png").read_bytes(), photo(320, 240), []
    pixels = np.asarray(Image.open(io.BytesIO(seven)).convert("RGB"), np.float32)[None] / np.float32(255)
    instances, npy = json.dumps({"instances": pixels.tolist()}).encode(), io.BytesIO()
    np.save(npy, pixels)
    for transport in transports:
        invocations += [
            invocation(f"mobilenet image, {transport}", "mobilenet_v2", image, "image/jpeg", transport),
            invocation(f"digit JSON, {transport}", "digits", instances, JSON, transport),
            invocation(f"digit npy, {transport}", "digits", npy.getvalue(), "application/x-npy", transport),
            invocation(f"rows CSV, {transport}", "rows", b"1,2,3,4\n5,6,7,8.5\n", "text/csv", transport),
            invocation(f"digit image, {transport}", "digits", seven, IMAGE, transport),
        ]
    form, form_type = encode_multipart_formdata([("image", ("a.png", seven, "image/png"))] * 3)
    packed = invocation("rows JSON, gzip", "rows", gzip.compress(b'{"inputs": [[1,2,3,4]]}'), transport="rest")
    document = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    binary = InferClient("rows", "FP32", (2, 4), np.arange(8, dtype="<f4").tobytes(), "x").over_rest()
    return [
        *invocations,
        Request("digit on boto3's route", "/endpoints/any/invocations", invocations[-1].headers, seven),
        invocation("digit without Content-Type", "digits", seven, ""),
        invocation("digits as a form", "digits", form, form_type),
        invocation("rows JSON lines", "rows", b"[1,2,3,4]\n[5,6,7,8]\n", "application/jsonlines"),
        replace(packed, headers={**packed.headers, "Content-Encoding": "gzip"}),
        Request("KServe JSON", "/v2/models/rows/infer", {"Content-Type": JSON}, json.dumps(document).encode()),
        Request("KServe binary", binary.path, {"Content-Type": binary.content_type, **binary.headers}, binary.body),
        image_call("KServe gRPC digit", "digits", seven),
        image_call("KServe gRPC photo", "mobilenet_v2", image),
        _call("KServe gRPC rows", "rows", "x", "FP32", [2, 4], fp32_contents=range(8)),
        Request("digit as a frame", f"{STREAM}?tfs-model-name=digits", body=seven),
        Request("photo as a frame, REST", f"{STREAM}?tfs-transport=rest", body=image),
        Request("metrics", "/metrics", method="GET"),
    ]


def image_call(name: str, model: str, image: bytes) -> Request:
    """Return a gRPC call with an encoded image."""
    return _call(name, model, "input_tensor", "BYTES", [1], bytes_contents=[image])


def _call(name: str, model: str, tensor: str, datatype: str, shape: list[int], **contents: Any) -> Request:
    message = message_class("inference.ModelInferRequest")(model_name=model)
    message.inputs.add(name=tensor, datatype=datatype, shape=shape, contents=contents)
    return Request(name, INFER, body=message.SerializeToString())


def learn(address: Address, requests: Sequence[Request], history: History) -> list[Request]:
    """Send each request to an idle server; return all, each like the answer that the history has now.

    Raises RuntimeError if a request does not return 200.
    """
    known = []
    with closing(Client(address, keep=True)) as client:
        for request in requests:
            outcome = client.send(request)
            if outcome.status != 200:
                raise RuntimeError(f"{request.name}: {outcome.fate}, {outcome.status} {outcome.body[:300]!r}")
            is_compared = request.method == "POST"
            if is_compared:
                history.at_rest(request.name, read(outcome.body, request.form))
            known.append(replace(request, like=request.name if is_compared else None))
    return known


def invocation(name: str, model: str, body: bytes, content_type: str = JSON, transport: str = "grpc") -> Request:
    """Return an invocation of a model."""
    chosen = f",tfs-transport={transport}" if transport else ""
    headers = {ATTRIBUTES: f"tfs-model-name={model}{chosen}"}
    return Request(name, "/invocations", headers | ({"Content-Type": content_type} if content_type else {}), body)
