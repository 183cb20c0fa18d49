"""A server's process: started, waited for and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from lightbox.supervisor.child import die_with_parent

START_SECONDS = 300.0
LOG_LINES = 40
PAUSE_SECONDS = 0.02
"""Between two looks; how exactly the time of a start is known."""
_SECOND_PATIENCE = 10.0


class ServerFailed(Exception):
    """A server does not answer. The message is ``reason``, one sentence, and the end of ``log``.

    ``ended`` is true if it has ended.
    """

    def __init__(self, reason: str, log: str, ended: bool) -> None:
        self.reason, self.log, self.ended = reason, log, ended
        super().__init__("\n".join([f"{reason}; the end of its log:", *log.splitlines()[-LOG_LINES:]]))


class ServerProcess:
    """A command that runs in its own session until ``close``. Use as a context manager."""

    def __init__(
        self,
        command: Sequence[str | Path],
        environ: Mapping[str, str],
        folder: Path | None = None,
        ends_with_parent: bool = False,
    ) -> None:
        """Start it in ``folder`` with its output in ``serve.log`` there; without one, here and in a nameless file.

        With ``ends_with_parent`` the kernel stops it when its starting thread ends, in all cases.
        """
        if folder is None:
            # The file has no name, so it disappears however this process ends.
            self._output = tempfile.TemporaryFile("ab")  # noqa: SIM115 - closed in close
            self.log_path = Path(f"/proc/self/fd/{self._output.fileno()}")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self.log_path = folder / "serve.log"
            self.log_path.write_bytes(b"")
            self._output = self.log_path.open("ab")
        self._began = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - the caller's own command
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal reaches the caller alone, which stops its servers
            preexec_fn=die_with_parent if ends_with_parent else None,  # noqa: PLW1509 - one system call, no lock
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """Its log so far."""
        return self.log_path.read_text(errors="replace")

    def wait_until(
        self, check: Callable[[], bool], seconds: float = START_SECONDS, pause: float = PAUSE_SECONDS
    ) -> float:
        """Return the seconds from its start until ``check`` holds; raise ServerFailed.

        ``seconds`` count from now. ``check`` runs every ``pause`` seconds.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerFailed(f"it ended with exit code {self.process.returncode}", self.log, ended=True)
            if check():
                return time.monotonic() - self._began
            time.sleep(pause)
        raise ServerFailed(f"it was not ready within {seconds:.0f} s", self.log, ended=False)

    def close(self, patience: float = 40.0) -> None:
        """Send SIGTERM, after ``patience`` seconds again, then kill the rest of its session."""
        for seconds in (patience, _SECOND_PATIENCE):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
        for pid in _session(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._output.close()


def _session(leader: int) -> list[int]:
    """Return the processes of a session, its leader's orphans among them."""
    processes = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # pid (name) state parent group session: the name may hold anything.
            if entry.read_text(errors="replace").rpartition(")")[2].split()[3] == str(leader):
                processes.append(int(entry.parent.name))
    return processes
