"""Requests of the Open Inference Protocol: a document, and binary tensors after it."""

from __future__ import annotations

import json
import struct
from typing import Any

from flask.testing import FlaskClient

LENGTH = "Inference-Header-Content-Length"


def infer(client: FlaskClient, model: str, document: Any, *blobs: bytes, **headers: str) -> Any:
    """Post ``document`` and ``blobs`` to the model; in the names of headers ``_`` stands for ``-``."""
    text = json.dumps(document).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named |= {LENGTH: str(len(text))} if blobs else {}
    return client.post(f"/v2/models/{model}/infer", data=b"".join([text, *blobs]), headers=named)


def images(shape: list[int], **parameters: Any) -> dict[str, Any]:
    """Return the document of an image input of this shape."""
    return {"inputs": [{"name": "image", "shape": shape, "datatype": "BYTES", "parameters": parameters}]}


def prefixed(*elements: bytes) -> bytes:
    """Return a binary tensor of datatype BYTES."""
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def numbers(value: Any) -> Any:
    """Return a message's JSON with its 64-bit numbers, which protobuf writes as text, as numbers."""
    if isinstance(value, dict):
        return {key: item if key in ("name", "version") else numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


DTYPES = ["bool", *(f"{k}int{b}" for k in ("", "u") for b in (8, 16, 32, 64)), "float16", "float32", "float64"]


def datatype(dtype: str) -> str:
    """Return the protocol's name of a dtype of numpy's."""
    return "BYTES" if dtype == "string" else dtype.upper().replace("FLOAT", "FP")
