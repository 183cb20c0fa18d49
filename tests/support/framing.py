"""The forms of tests/attacks/requests, which HTTP readers in a row must not read in two ways.

The files hold the forms by class, most of them known from the HTTP Garden and from reports on request smuggling. A
form has ``sends``, or the ``fields`` behind Host and the ``body`` of a POST, or its ``chunks``. A last request follows.
``reads`` are the requests that the bytes may mean. A reader takes them in this order, or refuses one and closes the
connection. Without ``reads`` it must refuse the first. The readers of ``by`` must take the first: ``nginx``, with what
is behind it, and ``rest``, the embedded model server. ``{hidden}`` is a body, or a request of its own; its length is
``{size}``, or ``{hex}``.
"""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lightbox.model_runtime.server.rest.http_server import RestServer
from support.patience import PATIENCE
from support.stack import Stack

FORMS = Path(__file__).parents[1] / "attacks" / "requests"
CLASSES = sorted(file.stem for file in FORMS.glob("*.toml") if file.stem != "http2")
REFUSED = re.compile(rb'HTTP/1.1 (400|405|413|414|431|501) |{"error":|$')
"""The beginning of a refusal. An older request gets no status, an incomplete one nothing."""


def exchange(server: Stack | RestServer, request: bytes) -> bytes:
    """Send bytes unchanged. Return everything received until the other side closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        if isinstance(server, RestServer):
            connection.shutdown(socket.SHUT_WR)  # an incomplete request ends; nginx would give up a complete one
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer


class Form:
    """A request of ``requests``, with a path of its own."""

    def __init__(self, kind: str, number: int, name: str, given: dict[str, Any], below: str = "") -> None:
        self.path = f"{below}/{kind}/{number:03}"
        self.name = f"{kind}: {name}"
        self.by: Any = given.get("by", [])
        self.given = given
        self.reads = [self.fill(read) for read in given.get("reads", [])]
        if self.reads and self.reads[-1] != "refused":
            self.reads.append(f"GET {self.path}/last 0")

    def fill(self, text: str) -> str:
        hidden = f"GET {self.path}/hidden HTTP/1.1\r\nHost: a\r\n\r\n"
        filled = {"path": self.path, "hidden": hidden, "size": len(hidden), "hex": f"{len(hidden):x}"}
        filled |= {"zeros": "0" * 99, "long": "a" * 8000, "many": "X-A: a\r\n" * 1000}
        return text.format(**filled)

    def message(self) -> bytes:
        given = self.given
        if "chunks" in given:
            given = {"fields": "Transfer-Encoding: chunked\r\n", "body": given["chunks"]}
        first = given.get("sends") or "POST {path} HTTP/1.1\r\nHost: a\r\n" + given["fields"] + "\r\n" + given["body"]
        last = "GET {path}/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        return self.fill(first + last).encode("latin-1")

    def problem(self, reader: str, taken: Sequence[str], answer: bytes) -> str | None:
        """Return what a reader did wrong, None if it took what the form means, or refused it."""
        wanted = 1 if reader in self.by else 0
        left = iter(self.reads)
        in_order = all(read in left for read in taken)
        if in_order and len(taken) >= wanted and (taken or REFUSED.match(answer)):
            return None
        return f"{self.name}: took {taken}, may take {self.reads}, at least {wanted}; it answered {answer[:300]!r}"


def forms(kind: str, below: str = "") -> Iterator[Form]:
    """Return the forms of a class, each with a path ``below``."""
    for number, (name, given) in enumerate(tomllib.loads((FORMS / f"{kind}.toml").read_text()).items()):
        yield Form(kind, number, name, given, below)
