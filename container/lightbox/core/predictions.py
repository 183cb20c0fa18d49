"""Predictions of a body: what the routes of several protocols answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NoReturn

from werkzeug.exceptions import HTTPException

from lightbox.base.errors import BadRequest
from lightbox.base.request_context import Header, RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.media_type import parse_content_type
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, OUTPUTS, TARGET_MODEL, CustomAttributes
from lightbox.core.edge import EXCHANGE, WsgiApp, header_of
from lightbox.core.http import check_query, read_body
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
        self._around = services.around
        self._way = lru_cache(maxsize=64)(self._find_way)

    def answer(
        self, environ: dict[str, Any], model: str | None = None, loads: bool = False, accept: str | None = None
    ) -> Response:
        """Answer a request with ``model``, its target, or the model of its custom attributes.

        With ``loads`` the target is loaded first. ``accept`` replaces the request's Accept header.
        """
        header, context = header_of(environ), environ[EXCHANGE].context
        target = header(TARGET_MODEL) if model is None else None
        held = self._pipeline.catalogue.target(target, context, loads) if target else nullcontext(model)
        with held as wanted, self._pipeline.memory.share(context.turn.model) as context.memory:
            body = read_body(environ, context, self._max_body_mb)
            if model is None:  # a path that names the model leaves a query nothing to choose
                check_query(environ)
            return self._answer(body, header, wanted, accept, context)

    def _find_way(self, content_type: str) -> tuple[str, _RespondTo]:
        """Return the protocol of bodies of a type, "" for none, and what answers: the middleware around the pipeline.

        Raises as ``parse_content_type``.
        """
        protocol = next((self._protocols[name] for name in self._protocols if _is_of_type(content_type, name)), "")
        respond: _RespondTo = self._run
        for around in reversed(self._around):
            if not around.media_types or any(_is_of_type(content_type, name) for name in around.media_types):
                respond = partial(_through_middleware, around, respond)
        return protocol, respond

    def _answer(
        self, body: bytes, header: Header, model: str | None, accept: str | None, context: RequestContext
    ) -> Response:
        """Answer a body. Raises BadRequest."""
        for name, why in self._refused_headers.items():
            if header(name) is not None:
                raise BadRequest(f"{name}: {why}")
        content_type = header("Content-Type") or ""
        protocol, respond = self._way(content_type)
        accept = (header("Accept") or "") if accept is None else accept
        content = Body(self._pipeline.codecs, body, content_type, accept, protocol=protocol)
        return respond(_call_of(content, model, header(CUSTOM_ATTRIBUTES)), header, context)

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


def _call_of(content: Body, model: str | None, text: str | None) -> Call[Response]:
    """Return the call that the custom attributes describe; ``model`` has precedence. Raises BadRequest."""
    if text is None:
        return Call(content, model)
    attributes = CustomAttributes.read(text)
    if content.protocol:
        return Call(content, model, attributes=attributes)
    content = replace(content, method=attributes.method, crop=attributes.crop)
    version, outputs = attributes.version, attributes.outputs
    if outputs and content.method is not Method.PREDICT:
        raise BadRequest(f"{OUTPUTS}: this pair cannot be combined with tfs-method={content.method.value}")
    model = model or attributes.model
    return Call(content, model, version, attributes.signature, attributes.transport, outputs, attributes)


def _through_middleware(
    around: Middleware, respond: _RespondTo, call: Call[Response], header: Header, context: RequestContext
) -> Response:
    return around(call, header, context, lambda call, context: respond(call, header, context))


def _is_of_type(content_type: str, media_type: str) -> bool:
    if not media_type:
        return not content_type
    begins = content_type[: len(media_type)].lower() == media_type
    return begins and parse_content_type(content_type).name == media_type
