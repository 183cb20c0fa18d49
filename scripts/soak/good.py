"""Requests that must succeed, one for each interface; the expected answers are recorded before the first kill."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image
from urllib3 import encode_multipart_formdata

from benchmark.clients.infer import InferClient
from benchmark.photos import photo
from benchmark.servers import REPOSITORY, Address
from lightbox.features.open_inference.grpc.messages import ModelInferResponse, message_class
from soak.client import INFER, STREAM, Client, Request

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TOLERANCE = 1e-4
"""Allows for another order of additions, as batches of other sizes have it."""
JSON, IMAGE = "application/json", "application/x-image"
DIGIT = "digit image, grpc"
_ID, _NUMBER = re.compile(r'"id":"[^"]*"'), re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


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
        Request("ping", "/ping", method="GET"),
        Request("metrics", "/metrics", method="GET"),
    ]


def image_call(name: str, model: str, image: bytes) -> Request:
    """Return a gRPC call with an encoded image."""
    return _call(name, model, "input_tensor", "BYTES", [1], bytes_contents=[image])


def _call(name: str, model: str, tensor: str, datatype: str, shape: list[int], **contents: Any) -> Request:
    message = message_class("inference.ModelInferRequest")(model_name=model)
    message.inputs.add(name=tensor, datatype=datatype, shape=shape, contents=contents)
    return Request(name, INFER, body=message.SerializeToString())


def learn(address: Address, transports: Sequence[str]) -> list[Request]:
    """Send each good request to an idle server; return all, each with a check against the recorded response.

    Raises RuntimeError if a request does not return 200.
    """
    known = []
    with closing(Client(address, keep=True)) as client:
        for request in requests(transports):
            outcome = client.send(request)
            if outcome.status != 200:
                raise RuntimeError(f"{request.name}: {outcome.fate}, {outcome.status} {outcome.body[:300]!r}")
            check = partial(_is_same, _content(outcome.body, request), request)
            known.append(replace(request, check=check) if request.method == "POST" else request)
    return known


def _is_same(recorded: tuple[str, list[float]], request: Request, body: bytes) -> bool:
    (wanted, numbers), (text, found) = recorded, _content(body, request)
    return text == wanted and len(found) == len(numbers) and np.allclose(found, numbers, TOLERANCE, 1e-6)


def _content(body: bytes, request: Request) -> tuple[str, list[float]]:
    """Return the constant parts of a request's answers: the text without numbers, and the numbers, which vary slightly.

    Raises ValueError for an invalid response.
    """
    if request.path == INFER:
        response = ModelInferResponse.FromString(body)
        raw = b"".join(response.raw_output_contents)
        return " ".join(output.name for output in response.outputs), np.frombuffer(raw, "<f4").tolist()
    if "Inference-Header-Content-Length" in request.headers:
        return "", np.frombuffer(body.rpartition(b"}")[2], "<f4").tolist()
    text = _ID.sub("", "".join(body.decode().split()))
    return _NUMBER.sub("", text), [float(number) for number in _NUMBER.findall(text)]


def invocation(name: str, model: str, body: bytes, content_type: str = JSON, transport: str = "grpc") -> Request:
    """Return an invocation of a model."""
    headers = {ATTRIBUTES: f"tfs-model-name={model},tfs-transport={transport}"}
    return Request(name, "/invocations", headers | ({"Content-Type": content_type} if content_type else {}), body)
