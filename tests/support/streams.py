"""A client of frame streams, and its frames."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from support.fakes import png
from support.patience import PATIENCE
from support.stack import Stack

ROUTE = "/invocations-bidirectional-stream"
SECONDS = PATIENCE


def frame(red: int) -> bytes:
    return png(np.full((8, 8, 3), (red, 20, 30), np.uint8))


def opened(stack: Stack, query: str = "", **options: Any) -> AbstractContextManager[ClientConnection]:
    url = stack.url.replace("http:", "ws:") + ROUTE
    stream: AbstractContextManager[ClientConnection] = connect(
        f"{url}?{query}", compression=None, ping_interval=None, open_timeout=SECONDS, close_timeout=SECONDS, **options
    )
    return stream


def received(stream: ClientConnection) -> Any:
    return json.loads(stream.recv(SECONDS))


def code_of_close(stream: ClientConnection) -> int:
    """Return the peer's close code of a stream; 1006 if the connection ends without one."""
    with pytest.raises(ConnectionClosed) as closed:
        stream.recv(SECONDS)
    return closed.value.rcvd.code if closed.value.rcvd else 1006
