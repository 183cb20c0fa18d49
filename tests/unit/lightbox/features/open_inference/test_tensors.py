"""Tensors of every datatype, in JSON and as bytes."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
from flask.testing import FlaskClient

from lightbox.model.spec import Array
from support.fakes import png
from support.infer_requests import DTYPES, LENGTH, datatype, images, infer, prefixed
from support.parameters import each

RED = png(np.full((4, 4, 3), (200, 0, 0)))
BLUE = png(np.full((9, 5, 3), (0, 0, 100)))
MEANS = [200, 0, 0, 0, 0, 100]


@each("dtype", DTYPES)
@each("binary", [True, False])
def test_every_datatype_goes_both_ways(client: FlaskClient, dtype: str, binary: bool) -> None:
    array: Array = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    entry: dict[str, Any] = {"name": "x", "shape": [3, 2], "datatype": datatype(dtype)}
    blobs = [array.tobytes()] if binary else []
    entry |= {"parameters": {"binary_data_size": len(blobs[0])}} if binary else {"data": array.tolist()}
    wanted = [{"name": "y", "parameters": {"binary_data": True}}, {"name": "z"}]
    answer = infer(client, dtype, {"id": "7", "inputs": [entry], "outputs": wanted}, *blobs)
    assert answer.status_code == 200, answer.text
    assert answer.content_type == "application/octet-stream"
    length = int(answer.headers[LENGTH])
    document = json.loads(answer.data[:length])
    assert (document["id"], document["model_name"], document["model_version"]) == ("7", dtype, "1")
    assert answer.data[length:] == array.tobytes()
    assert document["outputs"][0]["parameters"] == {"binary_data_size": array.nbytes}
    assert document["outputs"][1]["data"] == array.ravel().tolist()
    assert {output["datatype"] for output in document["outputs"]} == {datatype(dtype)}


def test_strings_go_both_ways(client: FlaskClient) -> None:
    data = {"name": "x", "shape": [1, 2], "datatype": "BYTES", "data": ["a", "ü"]}
    assert infer(client, "string", {"inputs": [data]}).get_json()["outputs"][0]["data"] == ["a", "ü"]
    asked = {"inputs": [data], "outputs": [{"name": "y"}], "parameters": {"binary_data_output": True}}
    answer = infer(client, "string", asked)
    assert answer.data[int(answer.headers[LENGTH]) :] == prefixed(b"a", "ü".encode())


def test_lengths_count_uncompressed_bytes(client: FlaskClient) -> None:
    text = json.dumps(images([2], binary_data_size=f"{len(RED)},{len(BLUE)}")).encode()
    answer = client.post(
        "/v2/models/mean/infer",
        data=gzip.compress(text + RED + BLUE),
        headers={LENGTH: str(len(text)), "Content-Encoding": "gzip"},
    )
    assert answer.get_json()["outputs"][0]["data"] == MEANS


def entry(**changes: Any) -> dict[str, Any]:
    found = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2], **changes}
    return {"inputs": [{key: value for key, value in found.items() if value is not None}]}
