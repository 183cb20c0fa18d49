"""HTTP/1.1 over asyncio without a library, for the processes of this container."""

from __future__ import annotations

from lightbox.base.machine.local_sockets import connect


async def get(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET at ``unix:/path`` or ``host:port``; raise OSError or ValueError."""
    reader, writer = await connect(address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split(b" ", 2)[1]) if b" " in head else 0, body


def headers_of(head: bytes) -> dict[str, str]:
    """Return the headers of an HTTP message by lower-case name; the first one of each name counts.

    A caller may send a thousand headers with each request: email's parser would take milliseconds.
    """
    found: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        found.setdefault(name.lower(), value.strip(" \t"))
    return found
