"""The REST API: paths, methods and status codes; ``core`` and ``predict`` implement the calls."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import orjson
from google.protobuf import json_format

from lightbox.model_runtime.server import predict
from lightbox.model_runtime.server.calls import REST, Calls
from lightbox.model_runtime.server.classify import CLASSIFY, REGRESS, Kind
from lightbox.model_runtime.server.rest.http_messages import Request, Response, html_error
from lightbox.model_runtime.server.rest.rest_json import (
    error_body,
    write_classifications,
    write_predict,
    write_regressions,
    written,
)
from lightbox.model_runtime.server.servable import Servable
from lightbox.model_runtime.wire.messages import model_pb2
from lightbox.model_runtime.wire.rest.examples import read_examples
from lightbox.model_runtime.wire.rest.json_document import load
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

JSON = "application/json"
MAX_UNCOMPRESSED_BYTES = 100 << 20

_AUTHORITY = re.compile(r"^https?://[^/?#]*", re.IGNORECASE)
"""Scheme and host of a target; ``//host/path`` is a path."""
_VERSION = r"(?:(?:/versions/([0-9]+))|(?:/labels/([^/:]+)))?"
_CALL = re.compile(rf"/v1/models/([^/:]+){_VERSION}:(classify|regress|predict)", re.IGNORECASE)
_LOOK = re.compile(rf"/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?", re.IGNORECASE)

_HTTP = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.UNAUTHENTICATED: 401,
}
"""All other codes are 500."""
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}


class _EarlyError(Exception):
    """An error for which tensorflow_model_server sends an empty body."""


class _Target(NamedTuple):
    spec: model_pb2.ModelSpec
    verb: str


_Respond = Callable[[model_pb2.ModelSpec, Request], bytes]


class RestApi:
    """Answers every path under ``/v1/``; ``pages`` are further paths with their content (metrics)."""

    def __init__(
        self,
        calls: Calls,
        timeout_seconds: float,
        cors: bool = False,
        pages: dict[str, Callable[[], bytes]] | None = None,
    ) -> None:
        self._calls = calls
        self._options = predict.run_options(timeout_seconds)
        self._cors = _CORS if cors else {}
        self._pages = pages or {}
        self._routes: dict[str, tuple[re.Pattern[str], dict[str, _Respond]]] = {
            "GET": (_LOOK, {"metadata": self._metadata, "": self._status}),
            "POST": (
                _CALL,
                {
                    "predict": self._predict,
                    "classify": partial(self._examples, CLASSIFY, write_classifications),
                    "regress": partial(self._examples, REGRESS, write_regressions),
                },
            ),
        }

    def handle(self, request: Request) -> Response:
        """Return the response to one request; never raises for a client's mistake."""
        path = _AUTHORITY.sub("", request.target)
        page = self._pages.get(path.partition("?")[0])
        if page is not None:
            return Response(200, page(), "text/plain")
        if not path.lower().startswith("/v1/"):
            return html_error(404)
        if request.method == "OPTIONS":
            return Response(200 if "origin" in request.headers else 400, headers=dict(self._cors))
        status, body = self._outcome(request, path)
        return Response(status, body, JSON, dict(self._cors))

    def _outcome(self, request: Request, path: str) -> tuple[int, bytes]:
        try:
            return 200, self._dispatch(request, path)
        except StatusError as error:
            return _HTTP.get(error.code, 500), error_body(error.message)
        except _EarlyError:
            return 400, b""
        except UnicodeError:
            return 400, error_body("A name in the request is not valid UTF-8")
        except MemoryError:
            return 429, error_body("Out of memory")

    def _dispatch(self, request: Request, path: str) -> bytes:
        pattern, verbs = self._routes.get(request.method, (None, {}))
        target = _target(pattern, path) if pattern is not None else None
        if target is None or target.verb not in verbs:
            raise invalid(f"Malformed request: {request.method} {path}")
        if not target.spec.name:
            raise invalid("Missing model name in request.")
        return verbs[target.verb](target.spec, request)

    # ------------------------------------------------------------------ calls

    def _predict(self, spec: model_pb2.ModelSpec, request: Request) -> bytes:
        with self._calls.counted(spec.name, "Predict", REST):
            return write_predict(
                *self._calls.predict_body(spec, partial(read_predict, _content(request)), self._options)
            )

    def _examples(
        self, kind: Kind, write: Callable[[Any], bytes], spec: model_pb2.ModelSpec, request: Request
    ) -> bytes:
        with self._calls.counted(spec.name, kind.call, REST):
            examples = read_examples(load(_content(request)))
            spec.signature_name = examples.signature_name
            return write(self._calls.examples(kind, spec, examples.input, self._options)[0])

    # ---------------------------------------------------------------- queries

    def _status(self, spec: model_pb2.ModelSpec, _: Request) -> bytes:
        return orjson.dumps(
            {"model_version_status": [_version_status(found) for found in self._calls.core.status(spec)]}
        )

    def _metadata(self, spec: model_pb2.ModelSpec, _: Request) -> bytes:
        signatures, found = self._calls.signatures(spec)
        signature_def = json_format.MessageToDict(
            signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        model_spec = {"name": found.name, "signature_name": "", "version": str(found.version.value)}
        return orjson.dumps({"model_spec": model_spec, "metadata": {"signature_def": signature_def}})


def _version_status(servable: Servable) -> dict[str, Any]:
    error = servable.error
    status = {
        "error_code": error.code.name if error else "OK",
        "error_message": written(error.message) if error else "",
    }
    return {"version": str(servable.version), "state": servable.state.name, "status": status}


def _target(pattern: re.Pattern[str], path: str) -> _Target | None:
    match = pattern.fullmatch(path)
    if match is None:
        return None
    name, version, label, verb = match.groups()
    spec = model_pb2.ModelSpec(name=_decoded(name or ""))
    if version:
        if int(version) >= 1 << 63:
            raise _EarlyError
        spec.version.value = int(version)
    if label:
        spec.version_label = _decoded(label)
    return _Target(spec, verb or "")


def _decoded(text: str) -> str:
    """Decode percent-encoding; text that is not UTF-8 matches no name."""
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def _content(request: Request) -> bytes | bytearray:
    if "gzip" in request.headers.get("content-encoding", ""):
        return _decompressed(request.body)
    return request.body


def _decompressed(body: bytearray) -> bytes:
    """Return the uncompressed body, empty for invalid gzip or a too long one, as in tensorflow_model_server."""
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        data = decompressor.decompress(body, MAX_UNCOMPRESSED_BYTES)
    except zlib.error:
        return b""
    return data if decompressor.eof else b""
