"""Messages of HTTP, read without a library."""

from __future__ import annotations

from lightbox.base.plain_http import headers_of
from lightbox.core.additions import IncomingRequest


def test_of_several_headers_of_a_name_the_first_counts() -> None:
    head = b"GET / HTTP/1.1\r\nX-API-Key: a\r\nx-api-key: b\r\nCookie:\t c:d\x85e \r\nno header\r\nHost:\r\n\r\n"
    asked = IncomingRequest("GET", "/", headers_of(head))
    assert [asked.header(name) for name in ("X-Api-Key", "cookie", "HOST", "Origin")] == ["a", "c:d\x85e", "", None]
