"""HTTP responses as bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

from lightbox.model_runtime.server.rest.http_parser import Request

DEFAULT_CONTENT_TYPE = "text/html; charset=ISO-8859-1"


@dataclass
class Response:
    """A response; ``close`` closes the connection after it."""

    status: int
    body: bytes = b""
    content_type: str = DEFAULT_CONTENT_TYPE
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False


def html_error(status: int) -> Response:
    """Return libevent's HTML page for requests that do not reach the API."""
    phrase = _phrase(status)
    page = f"<HTML><HEAD>\n<TITLE>{status} {phrase}</TITLE>\n</HEAD><BODY>\n<H1>{phrase}</H1>\n</BODY></HTML>\n"
    return Response(status, page.encode(), "text/html", close=True)


def serialize(request: Request | None, response: Response) -> tuple[list[bytes], bool]:
    """Return head and body of a response, and whether the connection stays open."""
    keep = request is not None and request.keep_alive and not response.close
    minor = request.minor_version if request is not None else 1
    lines = [f"HTTP/1.{minor} {response.status} {_phrase(response.status)}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    has_body = request is None or request.method != "HEAD"
    if has_body or response.content_type != DEFAULT_CONTENT_TYPE:
        lines.append(f"Content-Type: {response.content_type}")
    lines.append(f"Date: {formatdate(usegmt=True)}")
    if has_body:
        lines.append(f"Content-Length: {len(response.body)}")
    if not keep:
        lines.append("Connection: close")
    elif minor == 0:
        lines.append("Connection: keep-alive")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")
    return ([head, response.body] if has_body else [head]), keep


def _phrase(status: int) -> str:
    """Return a status's phrase; 499, for a cancelled call, has none in HTTP."""
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Client Closed Request"
