"""TensorFlow Serving's REST API for callers: the routes below /v1.

Requests and responses are forwarded unchanged. Only encoded images for a model that takes pixels are read here, as on
/invocations, and the ranks of inputs, which may crash the model server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from flask import Blueprint, g, request
from flask import Response as HttpResponse

from lightbox.base.error_texts import shorten_foreign, without_folders
from lightbox.base.errors import DeadlineExceeded, LightboxError, MalformedBody, RouteNotFound, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.codecs.json_text import from_json
from lightbox.core.edge import EXCHANGE, Exchange
from lightbox.core.http import json_body, received_body
from lightbox.core.operations import Operation, Served, described, json_operation, response
from lightbox.core.pipeline import Pipeline
from lightbox.core.request import JSON, Body, Call
from lightbox.features.tfs_api.forward import RestForward, ServerResponse
from lightbox.features.tfs_api.rank_reader import Ranks, body_ranks, head_ranks
from lightbox.model_runtime.wire.status import StatusError
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import TEXT, Schema
from lightbox.transports.base import from_server
from lightbox.transports.rest import CODE_OF_STATUS

_VERBS = {"predict": ("instances", "inputs"), "classify": ("examples",), "regress": ("examples",)}
"""The keys of each call's body; one of them is required."""
_LOOKS = (
    ("status", "", "model_version_status", "State of a model's versions"),
    ("metadata", "/metadata", "metadata", "Signatures of a model"),
)
"""Name, end of the path, key of the response and summary."""
_ONE_KEY: Schema = {"type": "object", "minProperties": 1, "maxProperties": 1}
MODEL = "/models/<model>"
WHICH = ("", "/versions/<version>", "/labels/<label>")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SIGNATURE = re.compile(rb'"signature_name"\s*:\s*"([^"\\]+)"')
_PREDICT = re.compile(r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,19})|/labels/([^/:]+))?:predict", re.IGNORECASE)
"""Upper bound of the model server's time for a predict request."""
_VERSION = re.compile(r"/versions/([0-9]{1,18})")
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class TfsRest:
    """Answers requests within ``deadline_seconds``; ``max_body_mb`` limits their bodies in MiB."""

    pipeline: Pipeline
    forward: RestForward
    deadline_seconds: float
    max_body_mb: int

    def look(self, model: str, version: str = "", label: str = "") -> HttpResponse:
        """Answer a status or metadata request."""
        return self._answer(model, self._targets(model, version), g.context)

    def call(self, verb: str, model: str, version: str = "", label: str = "") -> HttpResponse:
        """Answer a predict, classify or regress request."""
        context: RequestContext = g.context
        targets = self._targets(model, version)
        if raw_path() == f"/v1/models/{model}:{verb}":
            newest = self.pipeline.versions(model)
            targets = [*(f"/v1/models/{model}/versions/{number}:{verb}" for number in newest), raw_path()]
        with received_body(request.environ, self.pipeline.memory, self.max_body_mb) as body:
            if verb == "predict" and b'"b64"' in body:
                number = self._labelled(context) if label else version if len(targets) == 1 else ""
                if self._has_images(body, model, number, context):
                    return self._predict_images(body, model, number, context)
            return self._answer(model, targets, context, body)

    def other(self, rest: str = "") -> HttpResponse:
        """Forward an invalid path or method: the model server returns the error."""
        context: RequestContext = g.context
        with received_body(request.environ, self.pipeline.memory, self.max_body_mb) as body:
            return self._answer("", [raw_path()], context, body)

    def _answer(
        self, model: str, targets: Sequence[str], context: RequestContext, body: bytes | None = None
    ) -> HttpResponse:
        """Forward the request to the first of ``targets`` that exists."""
        context.limit(self.deadline_seconds)
        with self.pipeline.holding(model, context):
            if request.method == "POST" and body is not None:
                self._check_ranks(targets, body, context)
            context.transport = "rest"
            with context.stage("predict"):
                response = self.forward.send(request.method, targets, body, context)
                if response.status == 404:
                    self.pipeline.check_loading(response.body.decode(errors="replace"), context)
        if response.status < 400:
            version = _VERSION.search(response.target)
            context.version = int(version[1]) if version else None
            return HttpResponse(response.body, response.status, content_type=response.content_type)
        exchange: Exchange = request.environ[EXCHANGE]
        exchange.error_code = _error(response, model).code
        text = _shortened(response.body, unquote_to_bytes(response.target), body or b"")
        return HttpResponse(text, response.status, content_type=response.content_type)

    def _check_ranks(self, targets: Sequence[str], body: bytes, context: RequestContext) -> None:
        """Raise InputMismatch for a predict request that may crash the model server, see RankGuard.

        The beginning of a body shows its ranks, unless it has several inputs. Raises MalformedBody if even the whole
        body does not show them: the model server's own parser might find one.
        """
        whole = cache(partial(_whole_ranks, body, context))
        for target in targets:
            asked = _PREDICT.fullmatch(re.split("[?#]", target)[0])
            if asked is None or (asked[3] and not (label := self._labelled(context))):
                continue
            model, number = unquote(asked[1]), asked[2] or (asked[3] and label)
            version = int(number) if number else None
            ranks = head_ranks(body)
            signature = ranks and self.pipeline.rank_guard.known(model, version, ranks.signature_name, context)
            if ranks is None or (signature is not None and not ranks.covers(signature.inputs)):
                if not self.pipeline.rank_guard.may_end(model, version, context):
                    continue
                ranks = whole()
                signature = self.pipeline.rank_guard.known(model, version, ranks.signature_name, context)
            if signature is not None:
                self.pipeline.rank_guard.check_ranks(signature, ranks.of(signature.inputs))

    def _targets(self, model: str, version: str) -> list[str]:
        """Return the request's own path and, for version 0, those of the answering versions.

        Clients of OpenVINO Model Server use 0 for the newest. A version of that number has precedence.
        """
        path = raw_path()
        newest = self.pipeline.versions(model) if version == "0" else ()
        return [path, *(path.replace("/versions/0", f"/versions/{number}", 1) for number in newest)]

    def _labelled(self, context: RequestContext) -> str:
        """Return the version of the path's label; "" if there is none."""
        path = raw_path().partition("?")[0].rpartition(":")[0]
        response = self.forward.send("GET", [f"{path}/metadata"], None, context)
        return str(from_json(response.body)["model_spec"]["version"]) if response.status == 200 else ""

    def _has_images(self, body: bytes, model: str, version: str, context: RequestContext) -> bool:
        """Return whether base64 in a body can only be encoded images: the model has one input, of pixels."""
        named = _SIGNATURE.search(body)
        if version and not _NUMBER.fullmatch(version):
            return False
        try:
            signature = self.pipeline.describe(
                model, int(version) if version else None, context, named[1].decode() if named else None
            )
        except (Unavailable, DeadlineExceeded):
            raise  # nothing is known about the model: a forwarded image could come back as a wrong input
        except (LightboxError, UnicodeError):  # the model server returns the error
            return False
        image = signature.image
        return image is not None and not image.encoded

    def _predict_images(self, body: bytes, model: str, version: str, context: RequestContext) -> HttpResponse:
        content = Body(self.pipeline.codecs, body, JSON, JSON, plain=True)
        response = self.pipeline.run(Call(content, model=model, version=int(version) if version else None), context)
        return HttpResponse(response.body, content_type=response.content_type, headers=dict(response.headers))


def _whole_ranks(body: bytes, context: RequestContext) -> Ranks:
    try:
        return body_ranks(body, partial(context.memory.hold, what="the JSON"))
    except StatusError as error:
        raise MalformedBody(error.message) from error


def raw_path() -> str:
    """Return the request's raw path and query; raise RouteNotFound if they are not below /v1/."""
    path: str = request.environ.get("RAW_URI") or request.full_path.removesuffix("?")
    if not path.lower().startswith("/v1/"):
        raise RouteNotFound(f"there is no route {request.method} {request.path!r}")
    return path


def _shortened(body: bytes, *sent: bytes) -> bytes:
    """Return the body of an error without folders; a message that is too long is cut."""
    body = without_folders(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        message = str(from_json(body)["error"])
    except (ValueError, KeyError, TypeError):  # of a real server's HTTP layer
        message = body.decode(errors="replace")
    text = message.encode("utf-8", "replace").decode()
    short = shorten_foreign(text, *sent)
    return body if short == text else json_body({"error": short})


def _error(response: ServerResponse, model: str) -> LightboxError:
    """Return a response's error, for the log and metrics."""
    code = CODE_OF_STATUS.get(response.status, "INTERNAL" if response.status >= 500 else "INVALID_ARGUMENT")
    return from_server(code, response.body[:10_000].decode(errors="replace"), model, None)


def tfs_blueprint(api: TfsRest) -> Blueprint:
    """Return the routes of LIGHTBOX_TFS_API."""
    blueprint = Blueprint("TensorFlow Serving", __name__, url_prefix="/v1")

    def add(rule: str, name: str, method: str, summary: str, sent: Schema | None, got: Schema, view: Any) -> None:
        describe = described(partial(_operation, sent, got), summary)
        blueprint.add_url_rule(rule, name, describe(view), methods=[method])

    for which in WHICH:
        rule, argument = f"{MODEL}{which}", which.partition("<")[2].removesuffix(">")
        suffix = f"_of_{argument}" if argument else ""
        for name, path, key, summary in _LOOKS:
            add(rule + path, f"tfs_{name}{suffix}", "GET", summary, None, _having(key), partial(api.look))
        for verb, keys in _VERBS.items():
            sent = {"type": "object", "anyOf": [{"required": [key]} for key in keys]}
            view = partial(api.call, verb)
            add(f"{rule}:{verb}", f"tfs_{verb}{suffix}", "POST", verb.capitalize(), sent, _ONE_KEY, view)
    blueprint.add_url_rule("/<path:rest>", "other", api.other, methods=_METHODS)
    return blueprint


def _having(*keys: str) -> Schema:
    return {"type": "object", "required": [*keys]}


def _operation(sent: Schema | None, got: Schema, served: Served, model: DescribedModel | None) -> Operation:
    """Describe a route. An error's text is the model server's, with further keys if Lightbox refuses."""
    found = json_operation(got, body=sent)(served, model)
    failed = response("What is wrong.", {JSON: _having("error") | {"properties": {"error": TEXT}}}, by_worker=False)
    found["responses"] = {"200": found["responses"]["200"], "4XX": failed, "5XX": failed}
    return found
