"""An HTTP/2 client on PyPI's h2 for traffic that gRPC libraries cannot send: half calls, floods, closed windows."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, PingAckReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from support.patience import PATIENCE

_HEAD = 9
_AT_ONCE = 1 << 16
_PAUSE_SECONDS = 0.05


@dataclass(slots=True)
class Response:
    """The server's response on a stream."""

    headers: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    reset: int | None = None
    """The code of its RST_STREAM."""
    ended: bool = False
    """Whether it says nothing more: END_STREAM, or a reset."""

    def word(self, name: str) -> str | None:
        """Return a field of the trailers, else of the headers: a gRPC response without messages has only headers."""
        return self.trailers.get(name, self.headers.get(name))


class H2Caller:
    """One connection to a port of 127.0.0.1.

    ``settings`` are sent with the preface. With ``grants``, received data reopens the windows; without it ``grant``
    does. It reads only in ``hear``, ``wait`` and ``answer``, and when the server stops reading.
    """

    def __init__(self, port: int, settings: Mapping[SettingCodes, int] | None = None, grants: bool = True) -> None:
        """Connect, and send the preface. Raises OSError."""
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._grants = grants
        self._rest, self._going = b"", bytearray()
        self._streams: dict[int, Response] = {}
        self.pongs: list[bytes] = []
        self.closed = False
        """Whether the server has closed the connection."""
        config = H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self._h2 = H2Connection(config)
        self._h2.local_settings = Settings(
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 16, **(settings or {})}
        )
        self._h2.initiate_connection()
        self._flush()

    def __enter__(self) -> H2Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, stream: int) -> Response:
        return self._streams[stream]

    def open(self, headers: Mapping[str, str] | Sequence[tuple[str, str]], end: bool = False) -> int:
        """Send HEADERS; return the new stream. Raises h2's TooManyStreamsError beyond the server's limit."""
        stream = self._h2.get_next_available_stream_id()
        fields = headers.items() if isinstance(headers, Mapping) else headers
        self._h2.send_headers(stream, list(fields), end_stream=end)
        self._streams[stream] = Response()
        self._flush()
        return stream

    def push(self, stream: int, data: bytes, end: bool = False) -> int:
        """Send as much of ``data`` as the windows allow; return how much. END_STREAM goes with the last part."""
        sent = 0
        while not (self.closed or self[stream].ended):
            size = min(len(data) - sent, self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            is_last = sent + size == len(data)
            if size <= 0 and not (is_last and end):
                break
            self._h2.send_data(stream, data[sent : sent + size], end_stream=end and is_last)
            self._flush()
            sent += size
            if is_last:
                break
        return sent

    def send(self, stream: int, data: bytes, end: bool = False) -> None:
        """Send all of ``data`` as the windows allow, unless the server ends the stream first."""
        sent = self.push(stream, data, end)

        def is_sent() -> bool:
            nonlocal sent
            if sent < len(data):
                sent += self.push(stream, data[sent:], end)
            return sent == len(data) or self[stream].ended or self.closed

        self.wait(is_sent)

    def reset(self, stream: int, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Send RST_STREAM, unless the server has ended the stream."""
        if not self[stream].ended:
            self._h2.reset_stream(stream, code)
            self._flush()

    def ping(self, content: bytes) -> None:
        """Send a PING of eight bytes; ``pongs`` gets the reply."""
        self._h2.ping(content)
        self._flush()

    def grant(self, size: int, stream: int | None = None) -> None:
        """Let the server send ``size`` more bytes on a stream, or on the connection if no stream is given."""
        self._h2.increment_flow_control_window(size, stream)
        self._flush()

    def hear(self, seconds: float = 0) -> None:
        """Process received data, and wait for more for at most this many seconds."""
        self._read(seconds)
        self._flush()

    def wait(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Receive until a condition holds. Raises TimeoutError."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(f"nothing of what was waited for came within {seconds:g} s")
            if self.closed:
                time.sleep(_PAUSE_SECONDS)
            self.hear(_PAUSE_SECONDS)

    def answer(self, stream: int) -> Response:
        """Return the response on a stream after the server ends it or the connection. Raises TimeoutError."""
        self.wait(lambda: self.closed or self[stream].ended)
        return self[stream]

    def close(self) -> None:
        """Close the socket without GOAWAY."""
        self._socket.close()

    def _read(self, seconds: float = 0) -> None:
        while not self.closed:
            self._socket.settimeout(seconds)
            try:
                data = self._socket.recv(_AT_ONCE)
            except (BlockingIOError, TimeoutError):
                return
            except OSError:
                data = b""
            self.closed = not data
            self._take(data)
            seconds = 0

    def _take(self, data: bytes) -> None:
        came, start = memoryview(self._rest + data), 0
        while len(head := came[start : start + _HEAD]) == _HEAD:
            frame, length = Frame.parse_frame_header(head)
            if len(whole := came[start : start + _HEAD + length]) < _HEAD + length:
                break
            start += len(whole)
            if isinstance(frame, GoAwayFrame):  # h2 would accept no more data, not even late responses
                continue
            for event in self._h2.receive_data(whole):
                self._note_event(event)
        self._rest = bytes(came[start:])

    def _note_event(self, event: Event) -> None:
        match event:
            case ResponseReceived():
                self[event.stream_id].headers.update(_fields(event.headers))
            case TrailersReceived():
                self[event.stream_id].trailers.update(_fields(event.headers))
            case DataReceived():
                self[event.stream_id].data += event.data
                if self._grants and event.flow_controlled_length:
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self[event.stream_id].ended = True
            case StreamReset():
                self[event.stream_id].reset, self[event.stream_id].ended = int(event.error_code), True
            case PingAckReceived():
                self.pongs.append(event.ping_data)

    def _flush(self) -> None:
        self._going += self._h2.data_to_send()
        while self._going and not self.closed:
            self._socket.settimeout(_PAUSE_SECONDS)
            try:
                del self._going[: self._socket.send(self._going)]
            except TimeoutError:
                self._read()  # the server may stop reading because its output is not read
                self._going += self._h2.data_to_send()
            except OSError:  # data from before the close is still unread
                self._going.clear()


def _fields(headers: Iterable[Any]) -> dict[str, str]:
    return dict(headers)
