"""One child process: started in a group of its own, its output passed on line by line, stopped for sure."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

LAST_LINES = 20
LINE_LIMIT = 1 << 16
LAST_OUTPUT_SECONDS = 0.5
"""How long an ended process's output is waited for; its orphans may hold the pipe open for longer."""
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A command that runs until it ends or is stopped.

    It leads a process group of its own, so that Ctrl-C in a terminal reaches only the supervisor, which
    stops its children in order. Should the supervisor be killed, the kernel sends the child SIGTERM.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.environ = dict(environ)
        self.stop_signal = stop_signal
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._pumps: list[asyncio.Task[None]] = []

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    async def run(self) -> int:
        """Start the process, pass its output on until it ends, and return its exit code."""
        self.last_lines.clear()
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            process_group=0,
            limit=LINE_LIMIT,
            preexec_fn=_die_with_parent,
        )
        self._process = process
        assert process.stdout is not None
        self._pumps.append(asyncio.create_task(self._pump(process.stdout)))
        code = await process.wait()
        # Workers whose master was killed still hold its sockets: they must go before it is started again.
        self._signal_group(signal.SIGKILL if self.stop_signal == signal.SIGTERM else self.stop_signal)
        await asyncio.wait(self._pumps, timeout=LAST_OUTPUT_SECONDS)
        self._pumps = [pump for pump in self._pumps if not pump.done()]
        return code

    async def stop(self, patience: float) -> None:
        """Ask the process to stop, wait ``patience`` seconds for it, then kill what is left of its group."""
        if not self.running or self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(self.stop_signal)
        try:
            await asyncio.wait_for(self._process.wait(), max(patience, 0.0))
        except TimeoutError:
            print(f"[lightbox] {self.name} did not stop in time and is killed", file=sys.stderr, flush=True)
        self.kill()
        await self._process.wait()

    def kill(self) -> None:
        """Kill the process and all that it started."""
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _pump(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit: what has been read of it is dropped
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self.last_lines.append(text)
            print(f"[{self.name}] {text}", file=sys.stderr, flush=True)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
