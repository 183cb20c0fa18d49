"""Admission of a request before nginx reads its body: whether the caller may come in, and whether there is room.

nginx requests it by auth_request, and describes the caller's request in headers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.base.error_bodies import Headers, http_bytes
from lightbox.base.errors import LightboxError, PermissionDenied
from lightbox.base.request_context import AT_ONCE_HEADER, BATCH, CALLER_HEADER, PRIORITY_HEADER
from lightbox.core.additions import Authenticator, IncomingRequest
from lightbox.nginx.body_memory import LENGTH_HEADER, BodyAccount
from lightbox.nginx.refusals import DENIED, ERROR_HEADER, written

INSTEAD_HEADER = "X-Lightbox-Instead"
"""Header of a 403 to nginx: the name of the response to send, as in nginx.conf."""
METHOD_HEADER, PATH_HEADER = "x-lightbox-method", "x-lightbox-path"
"""Headers of nginx's request: the caller's method, and its path as normalized by nginx."""
_EMPTY = ("Content-Length", "0")


async def admission(
    bodies: BodyAccount, authenticator: Authenticator | None, target: str, sent: Mapping[str, str]
) -> bytes:
    """Return the whole response to nginx's request for ``target`` with the headers ``sent``, by lower-case name."""
    headers: Headers = []
    if authenticator is not None:
        asked = IncomingRequest(sent.get(METHOD_HEADER, ""), sent.get(PATH_HEADER, ""), sent)
        try:
            admitted = await authenticator(asked)
            headers = [(CALLER_HEADER, admitted.name)]
            if admitted.at_once is not None:
                headers.append((AT_ONCE_HEADER, str(admitted.at_once)))
            if admitted.batch:
                headers.append((PRIORITY_HEADER, BATCH))
            headers += [(f"X-Lightbox-{name}", value) for name, value in admitted.headers.items()]
        except LightboxError as error:
            headers = [(INSTEAD_HEADER, DENIED), (ERROR_HEADER, written(error))]
            headers.append((CALLER_HEADER, error.caller if isinstance(error, PermissionDenied) else ""))
            return http_bytes(403, [*headers, _EMPTY], b"")
    instead = bodies.instead(target, sent.get(LENGTH_HEADER, ""))
    if instead is None:
        return http_bytes(204, headers, b"")
    return http_bytes(403, [*headers, (INSTEAD_HEADER, instead), _EMPTY], b"")
