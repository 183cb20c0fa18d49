"""Arrays to the JSON of TensorFlow Serving's predict API, and back.

There are two forms: rows (``instances``/``predictions``) and columns (``inputs``/``outputs``). The server writes each
number of a column on an indented line of its own, and the arrays of rows on one line: at most half the bytes, and less
time to write and to parse. But rows require that all outputs have the same first dimension, which only a run of the
model shows for sure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as TimedOut

from lightbox.base.errors import BadRequest, ModelFailed, ModelServerUnreachable, Unavailable, UnknownSignature
from lightbox.base.request_context import RequestContext
from lightbox.codecs.json_text import array_text, from_json, to_json
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.transports.base import RECONNECT_PAUSE, RECONNECT_SECONDS, Transport, from_server
from lightbox.transports.described import signature_spec
from lightbox.transports.rest_connections import exchange

_NO_ROWS = ("has inconsistent batch size", "has invalid batch size", "has no shape information")
NOT_OVER_REST = frozenset({"float16", "bfloat16", "uint16", "complex64", "complex128"})
"""Dtypes without a JSON form in TensorFlow Serving's REST API."""

_LOOKED_UP = 10_000
"""Fewest numbers of an array for which a table of texts is faster than writing them one by one."""

CODE_OF_STATUS = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def may_go_by_rows(call: ModelCall) -> bool:
    """Return whether a call may use rows: it has one input with rows, and outputs that may share their number."""
    arrays = list(call.inputs.values())
    if len(arrays) != 1 or not arrays[0].ndim or not len(arrays[0]):
        return False
    shapes = [spec.shape for spec in call.signature.outputs.values()]
    return all(shapes) and len({shape[0] for shape in shapes if shape}) == 1


def has_no_rows(message: str) -> bool:
    """Return whether the server's error says that the outputs of a call share no rows."""
    return any(words in message for words in _NO_ROWS)


def write_request(call: ModelCall, by_row: bool) -> bytes:
    """Return the body of a call, in rows if ``by_row``."""
    pieces: list[bytes | memoryview] = [b'{"signature_name":', to_json(call.signature.name)]
    pieces.append(b',"instances":' if by_row else b',"inputs":{')
    for number, (name, array) in enumerate(call.inputs.items()):
        if not by_row:
            pieces.append((b"," if number else b"") + to_json(name) + b":")
        pieces.append(number_text(array) if not array.dtype.hasobject else to_json(_in_base64(array)))
    pieces.append(b"}" if by_row else b"}}")
    return b"".join(pieces)  # a single copy: images are megabytes of text


def number_text(array: Array) -> bytes | memoryview:
    """Return the JSON of an array of numbers or bools, with the fewest digits that restore each number.

    A float32 image has 256 levels in each channel: orjson writes their digits once, and the C library looks them up.
    """
    native = numbers.load() if array.dtype == np.float32 and array.size >= _LOOKED_UP else None
    found = native.distinct(np.ascontiguousarray(array, np.float32)) if native else None
    if native is None or found is None:
        return array_text(array)
    levels, index = found
    return native.write(index, array.shape, array_text(levels)[1:-1].split(b","))


def read_response(body: bytes, call: ModelCall, by_row: bool) -> dict[str, Array]:
    """Return the wanted outputs of a response. Raises ValueError, KeyError or TypeError for a malformed one."""
    spec, response = call.signature, from_json(body)
    requested = call.outputs or tuple(spec.outputs)
    if len(spec.outputs) == 1:
        named = {next(iter(spec.outputs)): response["predictions" if by_row else "outputs"]}
    elif by_row:
        named = {name: [row[name] for row in response["predictions"]] for name in requested}
    else:
        named = response["outputs"]
    return {name: _read_tensor(named[name], spec.outputs[name]) for name in requested}


def _in_base64(array: Array) -> Any:
    return _map(array, lambda element: {"b64": base64.b64encode(element).decode()}).tolist()


def _read_tensor(value: Any, spec: TensorSpec) -> Array:
    if not spec.is_string:
        return np.asarray(value, spec.dtype)
    return _map(np.asarray(value, object), _read_string)


def _read_string(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode("utf-8", "surrogateescape")


def _map(array: Array, convert: Callable[[Any], Any]) -> npt.NDArray[np.object_]:
    """Convert each element of an object array; the shape stays, even without elements."""
    out = np.empty(array.size, object)
    out[:] = [convert(element) for element in array.ravel().tolist()]
    return out.reshape(array.shape)


class RestTransport(Transport):
    """Calls one model server over REST, with keep-alive connections."""

    name = "rest"

    def __init__(self, connections: HTTPConnectionPool, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        self._connections = connections
        self._reconnect_seconds = reconnect_seconds
        self._without_rows: set[tuple[str, int, str]] = set()

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        from google.protobuf import json_format  # takes memory, and most workers speak gRPC or to the embedded server

        body = self._call("GET", _path(model, version) + "/metadata", None, model, version, context)
        response = from_json(body)
        signatures = response["metadata"]["signature_def"]["signature_def"]
        version = int(response["model_spec"]["version"])
        if name not in signatures:
            raise UnknownSignature.of(model, version, name, signatures)
        definition = json_format.ParseDict(signatures[name], meta_graph_pb2.SignatureDef(), ignore_unknown_fields=True)
        return signature_spec(model, version, name, definition)

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        """Return the wanted outputs. The server sends all outputs; the others are dropped here."""
        spec = call.signature
        signature = (spec.model, spec.version, spec.name)
        by_row = may_go_by_rows(call) and signature not in self._without_rows
        with context.stage("encode"):
            _refuse_dtypes_without_json(spec)
            body = write_request(call, by_row)
        with context.stage("predict"):
            context.transport = self.name
            path = _path(spec.model, spec.version) + ":predict"
            try:
                response = self._call("POST", path, body, spec.model, spec.version, context)
            except BadRequest as error:
                if not by_row or not has_no_rows(error.message):
                    raise
                response = None
        if response is None:  # The model ran, but its outputs have no rows: from now on it is called with columns.
            self._without_rows = {*self._without_rows, signature} if len(self._without_rows) < 1000 else {signature}
            return self.predict(call, context)
        with context.stage("decode_response"):
            try:
                return read_response(response, call, by_row)
            except (ValueError, KeyError, TypeError) as error:
                raise ModelFailed(f"the answer of the model {spec.model!r} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _call(
        self, verb: str, path: str, body: bytes | None, model: str, version: int | None, context: RequestContext
    ) -> bytes:
        response = self._send(verb, path, body, model, version, context)
        if response.status != 200:
            code = CODE_OF_STATUS.get(response.status, "INTERNAL")
            raise from_server(code, _error_text(response), model, version)
        return response.data

    def _send(
        self, verb: str, path: str, body: bytes | None, model: str, version: int | None, context: RequestContext
    ) -> BaseHTTPResponse:
        """Send a request once; if no server listens, wait briefly for one that is restarting."""

        def attempt() -> BaseHTTPResponse | None:
            try:
                return exchange(self._connections, verb, path, body, context)
            except TimedOut as error:
                raise from_server("DEADLINE_EXCEEDED", "", model, version) from error
            except HTTPError as error:
                ended = f"the model server ended while it processed a request for the model {model!r}"
                raise Unavailable(ended) from error

        if (response := context.poll(attempt, RECONNECT_PAUSE, self._reconnect_seconds)) is None:
            raise ModelServerUnreachable(f"no model server can be reached for the model {model!r}")
        return response


def _path(model: str, version: int | None) -> str:
    return f"/v1/models/{model}" + ("" if version is None else f"/versions/{version}")


def _error_text(response: BaseHTTPResponse) -> str:
    try:
        return str(from_json(response.data)["error"])
    except (ValueError, KeyError, TypeError):
        return response.data.decode(errors="replace")


def _refuse_dtypes_without_json(spec: SignatureSpec) -> None:
    """Refuse dtypes that the server cannot read, or cannot write after a run of the model."""
    for tensor in (*spec.inputs.values(), *spec.outputs.values()):
        if tensor.dtype in NOT_OVER_REST:
            raise BadRequest(
                f"the model {spec.model!r} has the tensor {tensor}, and TensorFlow Serving's REST API cannot "
                f"carry {tensor.dtype}: use tfs-transport=grpc or LIGHTBOX_TRANSPORT=grpc"
            )
