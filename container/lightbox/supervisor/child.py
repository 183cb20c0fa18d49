"""One child process in a process group of its own: output forwarded line by line, and a reliable stop."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

from typing_extensions import override

from lightbox.base.error_texts import shorten
from lightbox.base.telemetry.line_limit import REPORT_SECONDS, LineLimit, many_lines
from lightbox.base.telemetry.logs import line, log

LAST_LINES = 20
LINE_LIMIT = 1 << 16
_LONGEST_PART = 8
"""A logged line is at most this part of what its process may log at once."""
PAUSE_SECONDS, _MUCH = 0.05, 1 << 15
"""After a read of fewer bytes with text that may wait: not every such line of a busy process wakes this one."""
LAST_OUTPUT_SECONDS = 0.5
"""Seconds for which the output of an ended process's orphans is forwarded."""
OWN_OUTPUT_SECONDS = 0.02
"""Seconds to wait for the rest of an ended process's output: it is in the pipe, which orphans may keep open."""
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A command that runs until it ends or is stopped.

    It leads its own process group: Ctrl-C in a terminal reaches only the supervisor, which stops its children in order.
    If the supervisor is killed, the kernel sends the child SIGTERM. ``edit`` maps each line of output to a log line, or
    to None. ``on_end`` is called at the process's end, even while orphans keep its pipe open. Lines beyond ``limit``
    are dropped, counted and reported; those that begin with ``mark``, which is not logged, have ``record_limit``. After
    output with the text ``may_wait`` more is read a moment later.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        stop_signal: signal.Signals = signal.SIGTERM,
        cwd: Path | None = None,
        keep_descriptors: Sequence[int] = (),
        edit: Callable[[str], str | None] = lambda line: line,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.environ = dict(environ)
        self.stop_signal = stop_signal
        self.cwd = cwd
        self.keep_descriptors = tuple(keep_descriptors)
        self.edit = edit
        self.mark = ""
        self.may_wait = ""
        self.on_end: Callable[[], object] = lambda: None
        self.limit: LineLimit = many_lines(name)
        self.record_limit: LineLimit = many_lines(name)
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        # Of its own: the loop's are few on few cores, and each child would hold one.
        self._threads = ThreadPoolExecutor(2, name)
        self._groups: set[int] = set()
        self._stopped = self._report_is_due = False

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> int | None:
        """The id of the process, None if it is not running."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def groups(self) -> frozenset[int]:
        """The process groups of this run, and of earlier ones whose workers may still finish."""
        return frozenset(self._groups)

    @property
    def dropped(self) -> int:
        """Lines dropped so far."""
        return self.limit.dropped + self.record_limit.dropped

    async def run(self) -> int:
        """Start the process, forward its output until it ends, return its exit code. Does not start after ``stop``."""
        if self._stopped:
            return -self.stop_signal
        self.last_lines.clear()
        self._groups = {group for group in self._groups if _signal_group(group, 0)}
        receive, send = os.pipe()
        try:
            # asyncio's own subprocess also waits for the pipe, which orphans may keep open.
            self._process = subprocess.Popen(  # noqa: S603 - our own command; one system call, no lock
                self.argv,
                env=self.environ,
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=send,
                stderr=subprocess.STDOUT,
                process_group=0,
                pass_fds=self.keep_descriptors,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        except OSError:
            os.close(receive)
            raise
        finally:
            os.close(send)
        self._groups.add(self._process.pid)
        pump = asyncio.create_task(self._pump(receive))
        code = await asyncio.get_running_loop().run_in_executor(self._threads, self._process.wait)
        self.on_end()
        # Workers of a killed master still hold its sockets. They finish their requests and end.
        _signal_group(self._process.pid, self.stop_signal)
        await asyncio.wait([pump], timeout=OWN_OUTPUT_SECONDS)
        asyncio.get_running_loop().call_later(LAST_OUTPUT_SECONDS, pump.cancel)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal, if it is running."""
        if self.running and self._process is not None:
            self._process.send_signal(number)

    async def stop(self, patience: float) -> None:
        """Send SIGTERM, wait ``patience`` seconds, then kill the rest of the process group."""
        self._stopped = True
        if self.running and self._process is not None:
            self._process.send_signal(self.stop_signal)
            try:
                wait = partial(self._process.wait, max(patience, 0.0))
                await asyncio.get_running_loop().run_in_executor(self._threads, wait)
            except subprocess.TimeoutExpired:
                log(f"{self.name} did not stop in time and is killed")
        self.kill()

    def kill(self) -> None:
        """Kill the process and all its descendants, also those of earlier runs."""
        for group in self._groups:
            _signal_group(group, signal.SIGKILL)

    async def _pump(self, receive: int) -> None:
        stream = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: _Output(stream, self.may_wait.encode()), os.fdopen(receive, "rb")
        )
        with closing(transport):
            while read := await _read_line(stream):
                text, limit = read.decode(errors="replace").rstrip(), self.limit
                if self.mark and text.startswith(self.mark):
                    text, limit = text.removeprefix(self.mark), self.record_limit
                if (edited := self.edit(text)) is not None:
                    self.last_lines.append(text)
                    self._log(shorten(edited, limit.at_once // _LONGEST_PART), limit)
        self._report(is_last=True)

    def _log(self, text: str, limit: LineLimit) -> None:
        self._report()
        if limit.admits(len(line(self.name, text).encode())):
            log(text, self.name)
        elif not self._report_is_due:
            self._report_is_due = True
            asyncio.get_running_loop().call_later(REPORT_SECONDS, self._report)

    def _report(self, is_last: bool = False) -> None:
        for limit in (self.limit, self.record_limit):
            if report := limit.report(is_last):
                self._report_is_due = False
                log(report)


class _Output(asyncio.StreamReaderProtocol):
    """Reads a pipe, with a pause after what has the text ``may_wait``, unless the pipe fills."""

    _pipe: asyncio.ReadTransport

    def __init__(self, stream: asyncio.StreamReader, may_wait: bytes) -> None:
        super().__init__(stream)
        self._may_wait = may_wait

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pipe = cast(asyncio.ReadTransport, transport)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._may_wait and self._may_wait in data and len(data) < _MUCH:
            self._pipe.pause_reading()
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._pipe.resume_reading)


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end."""
    try:
        return await stream.readline()
    except ValueError:
        return b"(a line too long to log)"


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; return whether it exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def die_with_parent() -> None:
    """Let the kernel send this process SIGTERM when its parent thread ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def describe_exit(code: int) -> str:
    """Return a description of a process's end."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
