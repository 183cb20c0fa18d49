"""The way of log lines to stderr, which may be full, closed, paused or on a full disk."""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import threading

from lightbox.base.telemetry import logs
from lightbox.base.telemetry.line_limit import LineLimit

MOST_WAITING = 4 << 20
"""Bytes of lines that wait for stderr; further lines are dropped."""
LAST_SECONDS = 1.0
"""How long an ending process waits until its last lines are written."""
_PIPE_BUF = select.PIPE_BUF
_PAUSE_SECONDS = 0.025
"""Between two looks, so that not every line of busy workers wakes this process: it takes 0.1 ms to wake its threads."""


class LogRelay:
    """Writes the lines of several processes to a descriptor that may block or fail.

    Each write to the descriptor ``send`` is a message. One thread always reads them, another one writes them to
    ``target``. The lines that cannot be written, or for which there is no room, are dropped and counted.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._receiver, self._sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self.send = self._sender.fileno()
        self.dropped = 0
        """Lines dropped so far."""
        self.limit: LineLimit | None = None
        """The limit of messages that begin with ``logs.LIMITED``."""
        self._turn = threading.Condition()
        self._waiting = bytearray()
        self._overflow = 0
        self._within_line = False
        self._ending, self._complete = threading.Event(), False
        self._writer = threading.Thread(target=self._write, name="log writer", daemon=True)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
        try:
            threading.Thread(target=self._read, name="log reader", daemon=True).start()
            self._writer.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Wait until the lines are written, for a limited time. Later lines are dropped."""
        self._ending.set()
        self._receiver.shutdown(socket.SHUT_RD)  # the reader still receives what was sent before
        self._sender.close()
        self._writer.join(seconds)

    def _read(self) -> None:
        room = memoryview(bytearray(logs.MOST_BYTES))
        flags = 0
        while True:
            try:
                size = self._receiver.recv_into(room, 0, flags)
            except BlockingIOError:
                self._ending.wait(_PAUSE_SECONDS)
                flags = 0
                continue
            if not size and self._ending.is_set():
                break
            flags = socket.MSG_DONTWAIT
            lines = self._within_limit(bytes(room[:size]))
            with self._turn:
                if len(self._waiting) + len(lines) <= MOST_WAITING:
                    self._waiting += lines
                    self._turn.notify()
                else:
                    self._overflow += self._count(lines)
        self._receiver.close()
        with self._turn:
            self._complete = True
            self._turn.notify()

    def _within_limit(self, message: bytes) -> bytes:
        """Return the lines of a message, none beyond the limit; and before them the number of those dropped earlier."""
        lines = message.removeprefix(logs.LIMITED)
        if self.limit is None:
            return lines
        report = self.limit.report()
        if len(lines) < len(message) and not self.limit.admits(len(lines), lines.count(b"\n")):
            self._count(lines)
            lines = b""
        return (f"{logs.line('lightbox', report)}\n".encode() if report else b"") + lines

    def _write(self) -> None:
        lost = 0
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._waiting or self._complete)
                if not self._waiting:
                    return
                lines, self._waiting = bytes(self._waiting), bytearray()
                after, self._overflow = self._overflow, 0
            lost = self._report(lost)
            lost = self._report(lost + after + self._count(self._put(lines)))

    def _report(self, lost: int) -> int:
        """Write how many lines were dropped; return the number that is still to be reported."""
        return lost if lost and self._put(f"{logs.dropped(lost)}\n".encode()) else 0

    def _count(self, lines: bytes) -> int:
        count = lines.count(b"\n")
        self.dropped += count
        return count

    def _put(self, lines: bytes) -> bytes:
        """Write lines; return the rest that cannot be written."""
        if self._within_line:
            lines = b"\n" + lines
        at = 0
        try:
            while at < len(lines):
                # Other programs may write to the same pipe: what is not longer than this is not split by them.
                end = lines.rfind(b"\n", at, at + _PIPE_BUF) + 1 or lines.find(b"\n", at) + 1 or len(lines)
                try:
                    at += os.write(self._target, lines[at:end])
                except BlockingIOError:  # of a parent's making
                    writable = select.poll()
                    writable.register(self._target, select.POLLOUT)
                    writable.poll()
        except OSError:
            if at:
                self._within_line = not lines.endswith(b"\n", 0, at)
            return lines[at:].removeprefix(b"\n" if self._within_line and not at else b"")
        self._within_line = False
        return b""


class _Installed:
    relay: LogRelay | None = None


def relay_stderr() -> None:
    """Put a relay before this process's stderr, and that of its children, until it ends."""
    _Installed.relay = relay = LogRelay(os.dup(2))
    os.dup2(relay.send, 2)
    atexit.register(relay.close)


def limit_handlers(limit: LineLimit) -> None:
    """Limit the records of handlers, in all processes that write to the relay of this one."""
    if _Installed.relay is not None:
        _Installed.relay.limit = limit


def dropped_lines() -> int:
    """Return how many lines the relay of this process has dropped."""
    return _Installed.relay.dropped if _Installed.relay else 0
