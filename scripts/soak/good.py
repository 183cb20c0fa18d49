"""Requests that must be answered, one for each way in; what they must answer is learnt before the first kill."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import requests as http
from PIL import Image
from tritonclient.http import InferenceServerClient, InferInput

from benchmark.photos import photo
from lightbox.features.open_inference.grpc_messages import ModelInferResponse, message_class
from soak.client import INFER, STREAM, Client, Request

SAMPLES = Path(__file__).resolve().parents[2] / "docs" / "samples"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TOLERANCE = 1e-4
"""Allows for another order of additions, as batches of other sizes have it."""
JSON, IMAGE = "application/json", "application/x-image"
DIGIT = "digit image, local"

Check = Callable[[bytes], str]
"""Returns the problem of the body of a 200, "" without one."""
Known = tuple[Request, Check]


def requests() -> list[Request]:
    """Return the good requests; those that cost the model server much are few."""
    seven, picture, found = (SAMPLES / "digit-7.png").read_bytes(), photo(320, 240), []
    pixels = np.asarray(Image.open(io.BytesIO(seven)).convert("RGB"), np.float32)[None] / np.float32(255)
    npy = io.BytesIO()
    np.save(npy, pixels)
    for wire in ("local", "grpc", "rest"):
        found += [
            _invocation(f"mobilenet image, {wire}", "mobilenet_v2", wire, picture, "image/jpeg"),
            _invocation(f"digit JSON, {wire}", "digits", wire, json.dumps({"instances": pixels.tolist()}).encode()),
            _invocation(f"digit npy, {wire}", "digits", wire, npy.getvalue(), "application/x-npy"),
            _invocation(f"rows CSV, {wire}", "rows", wire, b"1,2,3,4\n5,6,7,8.5\n", "text/csv"),
            _invocation(f"digit image, {wire}", "digits", wire, seven, IMAGE),
        ]
    form = http.Request("POST", "http://x", files=[("image", ("a.png", seven, "image/png"))] * 3).prepare()
    body = form.body if isinstance(form.body, bytes) else b""
    packed = _invocation("rows JSON, gzip", "rows", "rest", gzip.compress(b'{"inputs": [[1,2,3,4]]}'))
    document = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    rows = InferInput("x", [2, 4], "FP32")
    rows.set_data_from_numpy(np.arange(8, dtype="<f4").reshape(2, 4))
    binary, length = InferenceServerClient.generate_request_body([rows])
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(length)}
    return [
        *found,
        Request("digit on boto3's route", "/endpoints/any/invocations", found[-1].headers, seven),
        _invocation("digit without Content-Type", "digits", "grpc", seven, ""),
        _invocation("digits as a form", "digits", "grpc", body, form.headers["Content-Type"]),
        _invocation("rows JSON lines", "rows", "grpc", b"[1,2,3,4]\n[5,6,7,8]\n", "application/jsonlines"),
        Request(packed.name, packed.path, {**packed.headers, "Content-Encoding": "gzip"}, packed.body),
        Request("KServe JSON", "/v2/models/rows/infer", {"Content-Type": JSON}, json.dumps(document).encode()),
        Request("KServe binary", "/v2/models/rows/infer", headers, bytes(binary)),
        image_call("KServe gRPC digit", "digits", seven),
        image_call("KServe gRPC photo", "mobilenet_v2", picture),
        _call("KServe gRPC rows", "rows", "x", "FP32", [2, 4], fp32_contents=range(8)),
        Request("digit as a frame", f"{STREAM}?tfs-model-name=digits", body=seven),
        Request("photo as a frame, REST", f"{STREAM}?tfs-transport=rest", body=picture),
        Request("ping", "/ping", method="GET"),
        Request("metrics", "/metrics", method="GET"),
    ]


def image_call(name: str, model: str, image: bytes) -> Request:
    """Return a call over gRPC with an image as it is."""
    return _call(name, model, "input_tensor", "BYTES", [1], bytes_contents=[image])


def _call(name: str, model: str, tensor: str, datatype: str, shape: list[int], **contents: Any) -> Request:
    message = message_class("inference.ModelInferRequest")(model_name=model)
    message.inputs.add(name=tensor, datatype=datatype, shape=shape, contents=contents)
    return Request(name, INFER, body=message.SerializeToString())


def learn(port: int, front: str) -> list[Known]:
    """Send each good request to a server at rest and return it with a check against what it answered.

    Raises RuntimeError when one is not answered with 200.
    """
    client, known = Client(port, front, keep=True), []
    for request in requests():
        outcome = client.send(request)
        if outcome.status != 200:
            reason = outcome.detail or outcome.body[:300]
            raise RuntimeError(f"{request.name}: {outcome.fate}, {outcome.status} {reason!r}")
        known.append((request, _same_as(outcome.body, request)))
    client.close()
    return known


def _same_as(first: bytes, request: Request) -> Check:
    wanted = _content(first, request)

    def check(body: bytes) -> str:
        try:
            return "" if _close(_content(body, request), wanted) else f"another answer: {body[:100]!r}"
        except ValueError as error:
            return f"unreadable: {error}"

    return check


def _content(body: bytes, request: Request) -> Any:
    """Return the part that must be equal in every answer to a request; raise ValueError for an invalid answer."""
    if request.path == INFER:
        answer = ModelInferResponse.FromString(body)
        pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
        return {output.name: np.frombuffer(raw, "<f4").tolist() for output, raw in pairs}
    if "Inference-Header-Content-Length" in request.headers:
        return np.frombuffer(body.rpartition(b"}")[2], "<f4").tolist()
    if request.method == "GET":
        return None
    found = json.loads(body)
    return {name: value for name, value in found.items() if name != "id"}


def _close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and _close(sorted(found.items()), sorted(wanted.items()))
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, float):
        return isinstance(found, float | int) and math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=1e-6)
    return bool(found == wanted)


def _invocation(name: str, model: str, wire: str, body: bytes, content_type: str = JSON) -> Request:
    headers = {ATTRIBUTES: f"tfs-model-name={model},tfs-transport={wire}"}
    return Request(name, "/invocations", headers | ({"Content-Type": content_type} if content_type else {}), body)
