"""HTTP/1.1 client on asyncio and httptools: posts one body repeatedly.

The client shares the cores with the server. This one uses half the CPU time of aiohttp, with which eight clients got
7 % fewer responses on two cores.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httptools

from benchmark.clients import Call, Failed, Refused, Sample
from benchmark.servers import Address

RESPONSE_SECONDS = 60.0


@dataclass(frozen=True)
class HttpClient:
    """POSTs one body to one path."""

    body: bytes = field(repr=False)
    content_type: str
    path: str = "/invocations"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @asynccontextmanager
    async def connected(self, address: Address) -> AsyncIterator[Call]:
        """Open one connection per concurrent request."""
        connections = _Connections(address)
        try:
            request = self.request(address)

            async def call(sample: Sample) -> None:
                response = await connections.exchange(request)
                if response.status != 200:
                    reason = f"HTTP {response.status}: {response.body[:300].decode(errors='replace')}"
                    raise Refused(reason) if response.status == 503 else Failed(reason)
                sample.bytes_sent += len(self.body)

            yield call
        finally:
            connections.close()

    def request(self, address: Address) -> bytes:
        """Return the whole request."""
        headers = {"Host": f"{address.host}:{address.port}", "Content-Length": str(len(self.body))}
        headers |= {"Content-Type": self.content_type, **self.headers}
        lines = [f"POST {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class _Connections:
    """A pool of kept-alive connections to an address."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._free: list[_Connection] = []

    async def exchange(self, request: bytes) -> _Response:
        """Send a request and return its response; raise OSError, TimeoutError or httptools' HttpParserError."""
        connection = self._free.pop() if self._free else None
        if connection is None or connection.is_closed:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(_Connection, self.address.host, self.address.port)
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                response = await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return response

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._free:
            connection.close()


class _Response:
    """A response parsed by httptools; ``done`` has a result when it is complete."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.status = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.done.set_result(None)


class _Connection(asyncio.Protocol):
    """A connection with at most one request in progress."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: _Response | None = None

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def exchange(self, request: bytes) -> _Response:
        assert self._transport, "it is connected"
        self._response = _Response()
        self._transport.write(request)
        await self._response.done
        return self._response

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done.done():
            return
        try:
            self._response.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._response.done.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        if self._response and not self._response.done.done():
            reason = error or ConnectionResetError("the server closed the connection before its answer was whole")
            self._response.done.set_exception(reason)

    def close(self) -> None:
        if self._transport:
            self._transport.close()
