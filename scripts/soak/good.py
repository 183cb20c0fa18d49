"""Requests that must be answered, one for each way in; what they must answer is learnt before the first kill."""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from soak import infer, streams
from soak.client import Client
from soak.exchange import Check, Request

SAMPLES = Path(__file__).resolve().parents[2] / "docs" / "samples"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TOLERANCE = 1e-4
"""Allows for another order of additions, as batches of other sizes have it."""


def requests() -> list[Request]:
    """Return the good requests; those that cost the model server much are few."""
    seven = (SAMPLES / "digit-7.png").read_bytes()
    tensor = _tensor(seven)
    found = [
        _image("mobilenet image, local", "mobilenet_v2", "local", _photo(), "image/jpeg"),
        _image("mobilenet image, gRPC", "mobilenet_v2", "grpc", _photo(), "image/jpeg"),
        _image("mobilenet image, REST", "mobilenet_v2", "rest", _photo(), "application/x-image"),
    ]
    for wire in ("local", "grpc", "rest"):
        found += [
            _image(f"digit image, {wire}", "digits", wire, seven, "application/x-image"),
            _invocation(f"digit JSON, {wire}", "digits", wire, json.dumps({"instances": tensor.tolist()}).encode()),
            _invocation(f"digit npy, {wire}", "digits", wire, _npy(tensor), "application/x-npy"),
            _invocation(f"rows CSV, {wire}", "rows", wire, b"1,2,3,4\n5,6,7,8.5\n", "text/csv"),
        ]
    boto3 = _image("digit on boto3's route", "digits", "grpc", seven, "application/x-image")
    return [
        *found,
        Request(boto3.name, "/endpoints/any/invocations", boto3.headers, boto3.body),
        _image("digit without Content-Type", "digits", "grpc", seven, ""),
        _invocation("digits as a form", "digits", "grpc", *_form([seven] * 3)),
        _invocation("rows JSON lines", "rows", "grpc", b"[1,2,3,4]\n[5,6,7,8]\n", "application/jsonlines"),
        _gzipped(_invocation("rows JSON, gzip", "rows", "rest", b'{"inputs": [[1,2,3,4]]}')),
        Request("KServe JSON", "/v2/models/rows/infer", {"Content-Type": "application/json"}, _kserve_json()),
        _kserve_binary(tensor),
        *infer.requests(seven, _photo()),
        Request("digit as a frame", f"{streams.ROUTE}?tfs-model-name=digits", body=seven),
        Request("photo as a frame, REST", f"{streams.ROUTE}?tfs-transport=rest", body=_photo()),
        Request("ping", "/ping", method="GET"),
        Request("metrics", "/metrics", method="GET"),
    ]


def learn(port: int, front: str, wanted: list[Request]) -> dict[str, Check]:
    """Send each request to a server at rest and return a check against what it answered.

    Raises RuntimeError when one is not answered with 200.
    """
    caller = Client(port, front, keep=True)
    checks = {}
    for request in wanted:
        outcome = caller.send(request)
        if outcome.status != 200:
            raise RuntimeError(
                f"{request.name}: {outcome.fate}, {outcome.status} {outcome.detail or outcome.body[:300]!r}"
            )
        checks[request.name] = _same_as(outcome.body, request)
    caller.close()
    return checks


def _same_as(first: bytes, request: Request) -> Check:
    if request.path == infer.PATH:
        return infer.same_as(first)
    if not request.path.startswith(streams.ROUTE) and not request.path.endswith(("invocations", "infer")):
        return lambda body: ""
    if request.name == "KServe binary":
        return lambda body: "" if body.rpartition(b"}")[2] == first.rpartition(b"}")[2] else "another answer"
    expected = json.loads(first)

    def check(body: bytes) -> str:
        try:
            found = json.loads(body)
        except ValueError:
            return "no JSON"
        found, wanted = ({k: v for k, v in doc.items() if k != "id"} for doc in (found, expected))
        return "" if _close(found, wanted) else f"another answer: {body[:100]!r}"

    return check


def _close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and found.keys() == wanted.keys()
            and all(_close(found[k], wanted[k]) for k in wanted)
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, float):
        return isinstance(found, float | int) and math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=1e-6)
    return bool(found == wanted)


def _invocation(name: str, model: str, wire: str, body: bytes, content_type: str = "application/json") -> Request:
    headers = {ATTRIBUTES: f"tfs-model-name={model},tfs-transport={wire}"}
    return Request(name, "/invocations", headers | ({"Content-Type": content_type} if content_type else {}), body)


def _image(name: str, model: str, wire: str, body: bytes, content_type: str) -> Request:
    return _invocation(name, model, wire, body, content_type)


def _gzipped(request: Request) -> Request:
    headers = {**request.headers, "Content-Encoding": "gzip"}
    return Request(request.name, request.path, headers, gzip.compress(request.body))


def _form(images: list[bytes]) -> tuple[bytes, str]:
    parts = [
        b'--edge\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n" + image + b"\r\n"
        for image in images
    ]
    return b"".join(parts) + b"--edge--\r\n", "multipart/form-data; boundary=edge"


def _kserve_json() -> bytes:
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    return json.dumps({"inputs": [tensor]}).encode()


def _kserve_binary(tensor: Any) -> Request:
    blob = np.arange(8, dtype="<f4").tobytes()
    parameters = {"binary_data_size": len(blob)}
    inputs = [{"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": parameters}]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return Request("KServe binary", "/v2/models/rows/infer", headers, head + blob)


def _npy(tensor: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, tensor)
    return buffer.getvalue()


def _tensor(image: bytes) -> Any:
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), np.float32)
    return pixels[None] / np.float32(255)


def _photo() -> bytes:
    from benchmark.photos import photo

    return photo(320, 240)
