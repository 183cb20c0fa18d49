"""A frame of a stream, sent over a WebSocket that stays open, and what became of it as a client sees it."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from soak.exchange import ANSWER_SECONDS, NGINX, Fate, Outcome, Request

ROUTE = "/invocations-bidirectional-stream"
WORKER = "stream worker"
_HELD_BY = (*NGINX, WORKER)


class FrameCaller:
    """A client with one stream for each path, kept open between frames if ``keep``."""

    def __init__(self, port: int, keep: bool) -> None:
        self._port = port
        self._keep = keep
        self._open: dict[str, tuple[ClientConnection, ExitStack]] = {}

    def send(self, request: Request) -> Outcome:
        """Send a frame and wait for its answer; a failure is an outcome, not an error."""
        started, reused = time.monotonic(), self._is_open(request.path)

        def outcome(fate: Fate, status: int = 0, body: bytes = b"", detail: str = "") -> Outcome:
            ended, again = time.monotonic(), status == 503
            meets_end = reused or fate is Fate.UNSENT
            return Outcome(request.name, fate, meets_end, started, ended, status, again, body, detail, _HELD_BY)

        try:
            stream = self._stream(request.path)
        except InvalidStatus as refused:
            response = refused.response
            return outcome(Fate.ANSWERED, response.status_code, bytes(response.body or b""))
        except (OSError, InvalidHandshake, EOFError) as problem:
            return outcome(Fate.NOT_CONNECTED, detail=repr(problem))
        try:
            stream.send(request.body)
            told: dict[str, Any] = json.loads(stream.recv(ANSWER_SECONDS))
        except ConnectionClosed as closed:
            self._forget(request.path)
            # What was accepted is answered before such a close.
            accepted = closed.rcvd is None or closed.rcvd.code != CloseCode.SERVICE_RESTART
            return outcome(Fate.CUT if accepted else Fate.UNSENT, detail=repr(closed))
        except TimeoutError:
            self._forget(request.path)
            return outcome(Fate.SILENT)
        if not self._keep:
            self._forget(request.path)
        return outcome(Fate.ANSWERED, told["status"], json.dumps(told["answer"]).encode())

    def close(self) -> None:
        """Close all streams."""
        for path in list(self._open):
            self._forget(path)

    def _is_open(self, path: str) -> bool:
        return path in self._open and self._open[path][0].state is State.OPEN

    def _stream(self, path: str) -> ClientConnection:
        """Return the open stream of a path; one that has ended meanwhile is opened again."""
        if not self._is_open(path):
            self._forget(path)
        if path not in self._open:
            opening: AbstractContextManager[ClientConnection] = connect(
                f"ws://127.0.0.1:{self._port}{path}", compression=None, open_timeout=ANSWER_SECONDS, close_timeout=1
            )
            stack = ExitStack()
            self._open[path] = stack.enter_context(opening), stack
        return self._open[path][0]

    def _forget(self, path: str) -> None:
        found = self._open.pop(path, None)
        if found is not None:
            with suppress(ConnectionClosed, OSError):
                found[1].close()
