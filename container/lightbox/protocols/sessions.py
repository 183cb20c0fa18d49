"""Sessions on SageMaker's routes: decode once, ask many.

The headers are those of botocore's model of ``InvokeEndpoint``; a session is opened and closed by the bodies of
aws/model-hosting-container-standards, ``{"requestType": "NEW_SESSION"}`` and ``{"requestType": "CLOSE"}`` (ADR 083).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import orjson

from lightbox.codecs.base import Response
from lightbox.codecs.media_type import parse_content_type
from lightbox.contents import JSON, Invocation
from lightbox.errors import BadRequest
from lightbox.images.picture import Crop, Mode, Picture, Pixels, Size, as_rgbx, cut, in_mode
from lightbox.picture_content import PictureInvocation, cropped, showing
from lightbox.request_context import RequestContext
from lightbox.sessions import CLOSE, HEADER, NEW, Session, SessionStore, UnknownSession

SESSION = HEADER
NEW_HEADER = "X-Amzn-SageMaker-New-Session-Id"
CLOSED_HEADER = "X-Amzn-SageMaker-Closed-Session-Id"
_LONGEST_REQUEST = 1024
"""Bytes of a body that may be a requestType; others are not parsed for it."""


def refused(sessions: SessionStore | None) -> BadRequest:
    """Return the error for a request that cannot belong to a session."""
    if sessions is None:
        return BadRequest(
            f"{SESSION}: expected no such header, as sessions are off; LIGHTBOX_SESSIONS=true enables them"
        )
    return BadRequest(f"{SESSION}: expected no such header with a body of the Open Inference Protocol")


class SessionRequests:
    """Answers one request that may belong to a session."""

    def __init__(self, store: SessionStore, context: RequestContext) -> None:
        self._store = store
        self._context = context

    def answer(
        self, asked: str | None, content: Invocation, crop: Crop | None, predict: Callable[[Invocation], Response]
    ) -> Response:
        """Answer with the session that the header ``asked`` names, or as without sessions where there is none.

        Raises UnknownSession, BadRequest, and what the store and ``predict`` raise.
        """
        wanted = _request_type(content)
        if asked == NEW or (asked is None and wanted == NEW):
            if wanted == CLOSE:
                raise BadRequest(f"{SESSION}: expected the id of the session to close, got {NEW}")
            return self._begin(content, crop, None if wanted == NEW or not content.body else predict)
        if asked is None:
            if wanted == CLOSE:
                raise BadRequest(f"{SESSION}: expected the id of the session to close, got no such header")
            return predict(content if crop is None else cropped(content, crop))
        session = self._of_request(self._store.find(asked))
        if wanted == NEW:
            raise BadRequest(f"requestType: expected {CLOSE} with a session's id, got {NEW}")
        if wanted == CLOSE:
            self._store.close(session)
            return _told(CLOSED_HEADER, session.id, session)
        return predict(self._content(session, content, crop))

    def _begin(
        self, content: Invocation, crop: Crop | None, predict: Callable[[Invocation], Response] | None
    ) -> Response:
        """Open a session, and have its first request answered; without an answer there is no session."""
        session = self._of_request(self._store.open())
        if predict is None:
            return _told(NEW_HEADER, session.header, session)
        try:
            response = predict(self._content(session, content, crop))
        except Exception:
            with suppress(UnknownSession):
                self._store.close(session)
            raise
        return replace(response, headers={**response.headers, NEW_HEADER: session.header})

    def _of_request(self, session: Session) -> Session:
        self._context.session = session.label
        return session

    def _content(self, session: Session, content: Invocation, crop: Crop | None) -> Invocation:
        """Return what a request of a session asks about: the image that is kept, now or since an earlier request."""
        if not content.body:
            return self._kept(session, content, crop)
        if content.codecs.is_one_image(content.body, content.content_type):
            self._keep(session, content)
            original = content.body if crop is None else None
            return showing(content, Picture(self._opener(session, crop), original))
        return content if crop is None else cropped(content, crop)

    def _kept(self, session: Session, content: Invocation, crop: Crop | None) -> PictureInvocation:
        with self._context.stage("session"):
            image = self._store.image(session)
        if image is None:
            raise BadRequest("the body: expected an image, as the session keeps none yet; got 0 bytes")
        self._context.spared = image.decode_seconds, image.sent_bytes
        return showing(content, Picture(self._opener(session, crop)))

    def _keep(self, session: Session, content: Invocation) -> None:
        before = self._context.stages.get("decode", 0.0)

        def keep(size: Size, rows: Iterator[bytes | memoryview]) -> None:
            seconds = self._context.stages.get("decode", 0.0) - before
            self._store.keep(session, size, rows, seconds, len(content.body))

        content.codecs.images.keep(content.body, self._context, self._store.check_size, keep)

    def _opener(self, session: Session, crop: Crop | None) -> Callable[..., Pixels]:
        def opened(context: RequestContext, mode: Mode = "RGB", fast_size: Size | None = None) -> Pixels:
            with context.stage("session"):
                kept = self._store.image(session)
                if kept is None:
                    raise BadRequest("the body: expected an image, as the session keeps none any more; got 0 bytes")
                return in_mode(cut(as_rgbx(kept.pixels, (kept.width, kept.height)), crop), mode)

        return opened


def _request_type(content: Invocation) -> str | None:
    """Return what a body asks of a session; None for a body that is a prediction's."""
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
        came = content.body.decode()
        raise BadRequest(
            f'requestType: expected {{"requestType": "{NEW}"}} or {{"requestType": "{CLOSE}"}}, got {came}'
        )
    return str(document["requestType"])


def _told(header: str, value: str, session: Session) -> Response:
    """Return the answer to a request that asks no model."""
    return Response(orjson.dumps({"session": session.id}), JSON, {header: value})
