"""HTTP/1.1 client on asyncio's streams: posts one body repeatedly.

The client shares the cores with the server. This one uses half the CPU time of aiohttp, with which eight clients got
7 % fewer responses on two cores.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

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
        request = self.request(address)
        idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

        async def call(sample: Sample) -> None:
            while idle and idle[-1][0].at_eof():
                idle.pop()[1].close()
            reader, writer = idle.pop() if idle else await asyncio.open_connection(address.host, address.port)
            try:
                async with asyncio.timeout(RESPONSE_SECONDS):
                    writer.write(request)
                    status, body = await _response(reader)
            except BaseException:
                writer.close()
                raise
            idle.append((reader, writer))
            if status != 200:
                reason = f"HTTP {status}: {body[:300].decode(errors='replace')}"
                raise Refused(reason) if status == 503 else Failed(reason)
            sample.bytes_sent += len(self.body)

        try:
            yield call
        finally:
            for _, writer in idle:
                writer.close()

    def request(self, address: Address) -> bytes:
        """Return the whole request."""
        headers = {"Host": f"{address.host}:{address.port}", "Content-Length": str(len(self.body))}
        headers |= {"Content-Type": self.content_type, **self.headers}
        lines = [f"POST {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the status and body of a response with Content-Length, as all measured servers send it."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    if not length:
        raise Failed(f"no Content-Length in {head!r}")
    return int(head.split(None, 2)[1]), await reader.readexactly(int(length[1]))
