"""Predictions of a body: what the routes of several protocols answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from werkzeug.exceptions import HTTPException

from lightbox.base.errors import BadRequest
from lightbox.base.request_context import Header, RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.media_type import parse_content_type
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, OUTPUTS, TARGET_MODEL, CustomAttributes
from lightbox.core.edge import EXCHANGE, WsgiApp, header_of
from lightbox.core.http import check_query, received_body
from lightbox.core.request import Body, Call, Middleware
from lightbox.core.services import Services
from lightbox.model.spec import Method

_RespondTo = Callable[[Call[Response], Header, RequestContext], Response]


class Predictions:
    """Answers requests whose body is the input of a model, and whose headers choose the model and more."""

    def __init__(self, services: Services) -> None:
        self._pipeline = services.pipeline
        self._max_body_mb = services.settings.max_body_mb
        self._refused_headers = services.refused_headers
        own = [around for around in services.around if around.protocol]
        self._protocols = {name: around.protocol for around in own for name in around.media_types}
        """The protocols of middleware that answers by itself and parses the custom attributes, by media type."""
        self._respond = self._run
        for around in reversed(services.around):
            self._respond = partial(_through_middleware, around, self._respond)

    def answer(
        self, environ: dict[str, Any], model: str | None = None, loads: bool = False, accept: str | None = None
    ) -> Response:
        """Answer a request with ``model``, its target, or the model of its custom attributes.

        With ``loads`` the target is loaded first. ``accept`` replaces the request's Accept header.
        """
        header, context = header_of(environ), environ[EXCHANGE].context
        target = header(TARGET_MODEL) if model is None else None
        held = self._pipeline.catalogue.target(target, context, loads) if target else nullcontext(model)
        with held as wanted, received_body(environ, self._pipeline.memory, self._max_body_mb) as body:
            if model is None:  # a path that names the model leaves a query nothing to choose
                check_query(environ)
            return self._respond(self._call(body, header, wanted, accept), header, context)

    def _call(self, body: bytes, header: Header, model: str | None, accept: str | None) -> Call[Response]:
        """Return the call of a request. Raises BadRequest."""
        for name, why in self._refused_headers.items():
            if header(name) is not None:
                raise BadRequest(f"{name}: {why}")
        content_type = header("Content-Type") or ""
        protocol = next((self._protocols[name] for name in self._protocols if _is_of_type(content_type, name)), "")
        accept = (header("Accept") or "") if accept is None else accept
        content = Body(self._pipeline.codecs, body, content_type, accept, protocol=protocol)
        text = header(CUSTOM_ATTRIBUTES)
        if text is None:
            return Call(content, model)
        attributes = CustomAttributes.read(text)
        if content.protocol:
            return Call(content, model, attributes=attributes)
        return _call_of(content, model, attributes)

    def _run(self, call: Call[Response], header: Header, context: RequestContext) -> Response:
        content = call.content
        assert isinstance(content, Body), "it is made in _call"
        return self._pipeline.run(call if content.crop is None else replace(call, content=content.cut()), context)


def without_flask(
    direct: Mapping[str, Callable[[dict[str, Any]], Response]], app: WsgiApp, fail: Callable[[HTTPException], NoReturn]
) -> WsgiApp:
    """Return an app that answers a POST to the paths in ``direct`` itself: Flask takes 0.25 ms for each.

    Flask has these routes too, for other methods and for the list of routes. ``fail`` maps Werkzeug's errors to ours,
    as in Flask.
    """

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path not in direct or environ["REQUEST_METHOD"] != "POST":
            return app(environ, start_response)
        environ[EXCHANGE].route = path
        try:
            response = direct[path](environ)
        except HTTPException as error:
            fail(error)
        headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        start_response("200 OK", [*headers, *response.headers.items()])
        return [response.body]

    return answer


def _call_of(content: Body, model: str | None, attributes: CustomAttributes) -> Call[Response]:
    """Return the call that the custom attributes describe; ``model`` takes precedence over theirs."""
    content = replace(content, method=attributes.method, crop=attributes.crop)
    version, outputs = attributes.version, attributes.outputs
    if outputs and content.method is not Method.PREDICT:
        raise BadRequest(f"{OUTPUTS}: this pair cannot be combined with tfs-method={content.method.value}")
    model = model or attributes.model
    return Call(content, model, version, attributes.signature, attributes.transport, outputs, attributes)


def _through_middleware(
    around: Middleware, respond: _RespondTo, call: Call[Response], header: Header, context: RequestContext
) -> Response:
    content_type = header("Content-Type") or ""
    if not around.media_types or any(_is_of_type(content_type, name) for name in around.media_types):
        return around(call, header, context, lambda call, context: respond(call, header, context))
    return respond(call, header, context)


def _is_of_type(content_type: str, media_type: str) -> bool:
    if not media_type:
        return not content_type
    begins = content_type[: len(media_type)].lower() == media_type
    return begins and parse_content_type(content_type).name == media_type
