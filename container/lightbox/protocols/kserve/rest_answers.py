"""REST answers: outputs in JSON, or as blobs behind it."""

from __future__ import annotations

from typing import Any

from lightbox.codecs.base import Answer
from lightbox.errors import NotAcceptable
from lightbox.model_spec import Array
from lightbox.protocols.kserve.bytes_elements import join_prefixed
from lightbox.protocols.kserve.datatypes import BYTES, datatype_of, to_buffer
from lightbox.protocols.kserve.requests import InferRequest
from lightbox.tensor_request import TensorAnswer
from tfs_wire import json_arrays

JSON_LENGTH = "Inference-Header-Content-Length"


def encode_answer(answer: TensorAnswer, request: InferRequest) -> Answer:
    """Return the body with each output in the form that the request wants it in."""
    outputs, blobs = [], []
    for name, array in answer.outputs.items():
        entry: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if request.binary.get(name, request.binary_default):
            blobs.append(blob(array))
            entry["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            entry["data"] = _data(name, array)
        outputs.append(entry)
    document: dict[str, Any] = {
        "model_name": answer.signature.model,
        "model_version": str(answer.signature.version),
        "outputs": outputs,
    }
    if request.id:
        document["id"] = request.id
    text = json_arrays.dumps(document)
    if not blobs:
        return Answer(text, "application/json")
    return Answer(b"".join([text, *blobs]), "application/octet-stream", {JSON_LENGTH: str(len(text))})


def blob(array: Array) -> bytes:
    """Return an output as bytes: numbers little-endian and row-major, strings each behind its length."""
    return join_prefixed(array.ravel().tolist()) if datatype_of(array) == BYTES else to_buffer(array)


def _data(name: str, array: Array) -> Any:
    if datatype_of(array) != BYTES:
        return array.ravel()
    try:
        return [element.decode() for element in array.ravel().tolist()]
    except UnicodeDecodeError:
        raise NotAcceptable(f"output {name}: it is no text; ask for it with binary_data") from None
