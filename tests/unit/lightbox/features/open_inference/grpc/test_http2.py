"""HTTP/2 to nginx, one stream per connection: the frames that nginx reads if a response ends before its request."""

from __future__ import annotations

import asyncio
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from lightbox.features.open_inference.grpc.http2 import StreamConnection
from support.patience import PATIENCE

OPENS = {":method": "POST", ":scheme": "http", ":path": "/a.B/C", ":authority": "a"}
_HEAD, _RESET = 9, 3


def resets(frames: bytes) -> list[int]:
    """Return the codes of the frames RST_STREAM (RFC 9113, 4.1 and 6.4)."""
    found, at = [], 0
    while at + _HEAD <= len(frames):
        end = at + _HEAD + int.from_bytes(frames[at : at + 3], "big")
        if frames[at + 3] == _RESET and end <= len(frames):
            found.append(int.from_bytes(frames[at + _HEAD : end], "big"))
        at = end
    return found


async def refuse(connection: StreamConnection) -> None:
    await connection.start([("content-type", "application/grpc")])
    await connection.end([("grpc-status", "12")])


async def read_by_a_late_caller(folder: Path) -> bytes:
    """Return the frames that a caller reads if it sends data after the response ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: StreamConnection(refuse), str(folder / "socket"))
    reader, writer = await asyncio.open_unix_connection(str(folder / "socket"))
    caller, frames = H2Connection(H2Configuration(client_side=True)), b""
    caller.initiate_connection()
    caller.send_headers(1, list(OPENS.items()))
    writer.write(caller.data_to_send())
    while not resets(frames):
        frames += await reader.read(1 << 16)
    caller.send_data(1, b"late", end_stream=True)  # the caller has parsed no frames, so its stream is open
    writer.write(caller.data_to_send())
    writer.write_eof()
    frames += await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    return frames


def test_data_behind_the_end_of_an_answer_is_no_error(tmp_path: Path) -> None:
    frames = asyncio.run(asyncio.wait_for(read_by_a_late_caller(tmp_path), PATIENCE))
    assert resets(frames) == [ErrorCodes.NO_ERROR]
