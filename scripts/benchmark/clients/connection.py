"""One kept-alive HTTP/1.1 connection that never blocks: a request out, an answer in, bytes counted."""

from __future__ import annotations

import socket

RECEIVE_BYTES = 1 << 20
_shared = memoryview(bytearray(RECEIVE_BYTES))
"""Bodies are counted and thrown away, so all connections of the process read into the same place."""


class Broken(Exception):
    """The connection ended, or what came is no HTTP answer that this client reads."""


class Connection:
    """Sends the same request again and again; ``on_writable`` and ``on_readable`` carry it forward."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.started = 0.0
        self.sent = self.received = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.error_body = b""
        self._out = memoryview(b"")
        self._head: bytearray | None = None
        self._left = 0

    def begin(self, request: bytes, started: float) -> None:
        """Take a whole request; ``started`` is the moment from which its latency counts."""
        self.started = started
        self._out = memoryview(request)
        self._head = bytearray()
        self.error_body = b""
        self.on_writable()

    @property
    def wants_to_write(self) -> bool:
        """Whether a part of the request is still to be sent."""
        return bool(self._out)

    def on_writable(self) -> None:
        """Send as much of the request as the socket takes."""
        try:
            while self._out:
                count = self.socket.send(self._out)
                self.sent += count
                self._out = self._out[count:]
        except BlockingIOError:
            return

    def on_readable(self) -> bool:
        """Read what is there; return True when the answer is whole."""
        while True:
            try:
                count = self.socket.recv_into(_shared)
            except BlockingIOError:
                return False
            if not count:
                raise Broken("the server closed the connection before its answer was whole")
            self.received += count
            if self._take(_shared[:count]):
                return True

    def _take(self, data: memoryview) -> bool:
        if self._head is not None:
            self._head += data
            head, end, rest = bytes(self._head).partition(b"\r\n\r\n")
            if not end:
                return False
            self._read_head(head)
            self._head = None
            data = memoryview(rest)
        self._left -= len(data)
        if self.status != 200 and len(self.error_body) < 300:
            self.error_body += bytes(data[:300])
        return self._left <= 0

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.status = int(first.split(" ", 2)[1])
        if "content-length" not in self.headers:
            raise Broken(f"an answer without Content-Length: {first}")
        self._left = int(self.headers["content-length"])

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def http_request(host: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return a whole POST request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
