"""Sessions on SageMaker's routes.

The headers are those of botocore's model of ``InvokeEndpoint``. Sessions are opened and closed with the bodies of
aws/model-hosting-container-standards, ``{"requestType": "NEW_SESSION"}`` and ``{"requestType": "CLOSE"}`` (ADR 083).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import orjson

from lightbox.base.error_texts import echo
from lightbox.base.errors import BadRequest
from lightbox.base.request_context import CALLER_HEADER, Header, RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.media_type import parse_content_type
from lightbox.core.request import JSON, Body, Call, Respond
from lightbox.features.sessions.store import CLOSE, HEADER, NEW, Session, SessionStore, UnknownSession, owner_of
from lightbox.images.lazy_image import Crop, LazyImage, Mode, Opened, Resized, as_rgbx, cut, in_mode
from lightbox.images.preparation import Size

SESSION = HEADER
NEW_HEADER = "X-Amzn-SageMaker-New-Session-Id"
CLOSED_HEADER = "X-Amzn-SageMaker-Closed-Session-Id"
_LONGEST_REQUEST = 1024
"""Longest body that may be a requestType; longer ones are not parsed for it."""


class SessionRequests:
    """Answers requests that may belong to a session."""

    media_types = ()
    protocol = ""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def __call__(self, call: Call[Response], header: Header, context: RequestContext, respond: Respond) -> Response:
        """Answer with the session in the request's header; without the header, call ``respond``.

        Raises UnknownSession, BadRequest, and as the store and ``respond`` do.
        """
        name, content = header(SESSION), call.content
        assert isinstance(content, Body), "SageMaker's routes take bodies"
        if name is not None and content.protocol:
            raise BadRequest(f"{SESSION}: a body of {content.protocol} cannot belong to a session")
        kind = _request_type(content)
        if name == NEW or (name is None and kind == NEW):
            if kind == CLOSE:
                raise BadRequest(f"{SESSION}: expected the id of the session to close, got {NEW}")
            session = _note_session(self._store.open(_owner(header)), context)
            if kind == NEW or not content.body:
                return _session_response(NEW_HEADER, session.header, session)
            return self._answer_first(session, call, content, context, respond)
        if name is None:
            if kind == CLOSE:
                raise BadRequest(f"{SESSION}: expected the id of the session to close, the header is missing")
            return respond(call, context)
        session = _note_session(self._store.find(name, _owner(header)), context)
        if kind == NEW:
            raise BadRequest(f"requestType: expected {CLOSE} with a session's id, got {NEW}")
        if kind == CLOSE:
            self._store.close(session)
            return _session_response(CLOSED_HEADER, session.id, session)
        return respond(replace(call, content=self._content(session, content, context)), context)

    def _answer_first(
        self, session: Session, call: Call[Response], content: Body, context: RequestContext, respond: Respond
    ) -> Response:
        """Answer a session's first request; if it fails, there is no session."""
        try:
            response = respond(replace(call, content=self._content(session, content, context)), context)
        except Exception:
            with suppress(UnknownSession):
                self._store.close(session)
            raise
        return replace(response, headers={**response.headers, NEW_HEADER: session.header})

    def _content(self, session: Session, content: Body, context: RequestContext) -> Body:
        """Return the content of a session's request with its image, new or kept from an earlier request."""
        if not content.body:
            return self._keep_image(session, content, context)
        if not content.is_one_image:
            return content
        self._keep(session, content, context)
        original = content.body if content.crop is None else None
        return content.showing(LazyImage(self._opener(session, content.crop), original))

    def _keep_image(self, session: Session, content: Body, context: RequestContext) -> Body:
        with context.stage("session"):
            image = self._store.image(session)
        if image is None:
            raise BadRequest("the body: expected an image, as the session has none yet; got 0 bytes")
        context.note(saved_ms=round(image.decode_seconds * 1000, 3), saved_bytes=image.sent_bytes)
        context.timings.append(
            f'saved;dur={image.decode_seconds * 1000:.3f};desc="decode and {image.sent_bytes} bytes"'
        )
        return content.showing(LazyImage(self._opener(session, content.crop)))

    def _keep(self, session: Session, content: Body, context: RequestContext) -> None:
        before = context.stages.get("decode", 0.0)

        def keep(size: Size, rows: Iterator[bytes | memoryview]) -> None:
            seconds = context.stages.get("decode", 0.0) - before
            with context.stage("session"):
                self._store.keep(session, size, rows, seconds, len(content.body))

        content.codecs.images.keep(content.body, context, self._store.check_size, keep)

    def _opener(self, session: Session, crop: Crop | None) -> Callable[..., Opened]:
        def opened(context: RequestContext, mode: Mode = "RGB", resized: Resized | None = None) -> Opened:
            with context.stage("session"):
                kept = self._store.image(session)
                if kept is None:
                    raise BadRequest("the body: expected an image, as the session has none any more; got 0 bytes")
                image = as_rgbx(kept.pixels, (kept.width, kept.height))
                found = Opened(image, image.size) if crop is None else cut(image, crop)
                return found._replace(pixels=in_mode(found.pixels, mode))

        return opened


def _owner(header: Header) -> bytes:
    """Return the caller as nginx names it; SageMaker and a proxy are one address."""
    return owner_of(header(CALLER_HEADER) or None, header("X-Forwarded-For") or "")


def _note_session(session: Session, context: RequestContext) -> Session:
    context.note(session=session.label)
    return session


def _request_type(content: Body) -> str | None:
    """Return the requestType of a body; None for a prediction's body."""
    if len(content.body) > _LONGEST_REQUEST or b'"requestType"' not in content.body:
        return None
    if parse_content_type(content.content_type).name not in ("", JSON):
        return None
    try:
        document = orjson.loads(content.body)
    except ValueError:
        return None
    if not isinstance(document, dict) or "requestType" not in document:
        return None
    if document not in ({"requestType": NEW}, {"requestType": CLOSE}):
        came = echo(content.body.decode())
        raise BadRequest(
            f'requestType: expected {{"requestType": "{NEW}"}} or {{"requestType": "{CLOSE}"}}, got {came}'
        )
    return str(document["requestType"])


def _session_response(header: str, value: str, session: Session) -> Response:
    """Return the response to a request without a prediction."""
    return Response(orjson.dumps({"session": session.id}), JSON, {header: value})
