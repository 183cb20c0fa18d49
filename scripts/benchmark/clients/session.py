"""A client whose image is kept in a session: it is sent once, and asked about with requests that have no body."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmark.clients.http import HttpClient, HttpSession
from benchmark.servers.address import Address

HEADER = "X-Amzn-SageMaker-Session-Id"
NEW_HEADER = "X-Amzn-SageMaker-New-Session-Id"
PATH = "/invocations"


@dataclass(frozen=True)
class KeptImage:
    """Sends an image into a new session when it is opened; its loads ask about that."""

    image: bytes = field(repr=False)
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    def open(self, address: Address) -> HttpSession:
        """Return a session of HTTP that asks about a kept image. Raises RuntimeError when no session is opened."""
        connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
        try:
            headers = {"Content-Type": self.content_type, **self.headers, HEADER: "NEW_SESSION"}
            connection.request("POST", PATH, self.image, headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        session = answer.getheader(NEW_HEADER, "").partition(";")[0]
        if not session:
            raise RuntimeError(f"no session was opened: {answer.status} {body[:300]!r}")
        return HttpClient(b"", self.content_type, PATH, {**self.headers, HEADER: session}).open(address)
