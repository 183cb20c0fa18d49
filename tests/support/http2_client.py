"""A client of HTTP/2 that a test drives frame by frame: it sends what a gRPC library never would."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from lightbox.features.open_inference import grpc_messages, http2
from support.patience import PATIENCE

PATH = f"/{grpc_messages.INFERENCE_SERVICE}/ModelInfer"
_SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 4, 6, 7, 8
_ACK = 1
_INITIAL_WINDOW = 4


class RawClient:
    """One connection. What it may send is what the server's windows leave, as for every client."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._frames = http2.Frames((1 << 24) - 1)
        self._initial = self._window = 65_535
        self._windows: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self.answers: dict[int, bytes] = {}
        """The headers and trailers of each call, as they are on the wire: here without a table."""
        self.ended: set[int] = set()
        self.closed = False
        self._send(http2.PREFACE + http2.frame(_SETTINGS, 0, 0, b""))

    def open(self, number: int, headers: dict[str, str] | None = None) -> None:
        """Begin a call of ModelInfer."""
        fields = {":method": "POST", ":scheme": "http", ":path": PATH, ":authority": "test", "te": "trailers"}
        block = http2.written_out(fields | {"content-type": "application/grpc"} | (headers or {}))
        self._windows[number], self.sent[number] = self._initial, 0
        self._send(http2.frame(http2.HEADERS, http2.END_HEADERS, number, block))

    def push(self, number: int, message: bytes, size: int) -> int:
        """Send of a message's first ``size`` bytes what is not sent yet and what the windows leave; return how many."""
        total = 0
        while number not in self.ended and not self.closed:
            start = self.sent[number]
            count = min(size - start, self._windows[number], self._window, http2.MAX_FRAME)
            if count <= 0:
                break
            self._send(http2.frame(http2.DATA, 0, number, message[start : start + count]))
            self.sent[number] += count
            self._windows[number] -= count
            self._window -= count
            total += count
        return total

    def hear(self, seconds: float = 0) -> None:
        """Take what has come, or comes within so many seconds."""
        while not self.closed and select.select([self._socket], [], [], seconds)[0]:
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            self.closed = not data
            for frame in self._frames.feed(data):
                self._hear(frame)
            seconds = 0

    def wait(self, condition: Callable[[], bool]) -> None:
        """Listen until a condition holds."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until
            if self.closed:
                time.sleep(0.05)
            self.hear(0.05)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send_raw(self, data: bytes) -> None:
        """Send any bytes."""
        self._send(data)

    def _hear(self, frame: http2.Frame) -> None:
        payload = frame.data[9:]
        if frame.kind == _SETTINGS and not frame.flags & _ACK:
            self._set(payload)
            self._send(http2.frame(_SETTINGS, _ACK, 0, b""))
        elif frame.kind == _WINDOW_UPDATE:
            size = int.from_bytes(payload, "big")
            if frame.stream:
                self._windows[frame.stream] += size
            else:
                self._window += size
        elif frame.kind == _PING and not frame.flags & _ACK:
            self._send(http2.frame(_PING, _ACK, 0, payload))
        elif frame.kind == http2.HEADERS:
            self.answers[frame.stream] = self.answers.get(frame.stream, b"") + payload
        if frame.ends_stream:
            self.ended.add(frame.stream)

    def _set(self, payload: bytes) -> None:
        for start in range(0, len(payload), 6):
            name, value = (
                int.from_bytes(payload[start : start + 2], "big"),
                int.from_bytes(payload[start + 2 :][:4], "big"),
            )
            if name == _INITIAL_WINDOW:
                self._windows = {number: size + value - self._initial for number, size in self._windows.items()}
                self._initial = value

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            self.closed = True


def message(size: int, compressed: bool = False) -> bytes:
    """Return a message of zeros as gRPC sends it."""
    return bytes([compressed]) + size.to_bytes(4, "big") + bytes(size)
