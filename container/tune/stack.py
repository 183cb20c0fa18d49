"""A whole Lightbox of one's own beside those that may run already: started as ``serve.sh serve`` starts it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType

from harness.ports import free_ports
from lightbox.processes.child import die_with_parent
from lightbox.processes.commands import PYTHON, child_environ

STOP_SECONDS = 10.0
LOG_BYTES = 1 << 20
_LOOK_SECONDS = 0.02
_SUPERVISOR = "[lightbox] "
_REFUSED = f"{_SUPERVISOR}cannot start:"
_STOPPING, _KILLED = "stopping: accepted requests finish first", "did not stop in time and is killed"

OWN_SETTINGS = {
    "LIGHTBOX_LOG_FORMAT": "text",
    "LIGHTBOX_DRAIN_SECONDS": "1",
    # On a GPU the stacks share its memory instead of each taking all of it.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
"""What a stack that is only measured has in its own way; none of it takes part in answering."""

UNWANTED = ("SAGEMAKER_MULTI_MODEL", "LIGHTBOX_KSERVE_GRPC_PORT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Settings of the service that would take its ports, or report made-up requests as its own."""


class StackFailed(Exception):
    """The stack did not become ready; the message is the sentence that it gave as the reason."""


class Stack:
    """One running stack; ``port`` is that of its nginx, ``start_seconds`` what its start took.

    Use as a context manager.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start with these environment variables over those of this process, on ports that are free."""
        self.port, low = free_ports(), free_ports(128)
        self.start_seconds = 0.0
        # Nameless: nothing of it stays, however this process ends.
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115 - closed in stop
        settings = {name: value for name, value in child_environ().items() if name not in UNWANTED}
        settings |= OWN_SETTINGS | dict(environ)
        settings |= {"SAGEMAKER_BIND_TO_PORT": str(self.port), "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 127}"}
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*PYTHON, "lightbox", "serve"],
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            process_group=0,  # Ctrl-C in a terminal reaches the tuning alone, which stops its stacks
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
        )

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_ready(self, seconds: float) -> None:
        """Return when /ping answers 200; raise StackFailed."""
        began = time.monotonic()
        deadline = began + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StackFailed(self._last_words())
            if _ping(self.port) == http.HTTPStatus.OK:
                self.start_seconds = time.monotonic() - began
                return
            time.sleep(_LOOK_SECONDS)
        raise StackFailed(f"it was not ready within {seconds:.0f} s")

    def shorten_log(self) -> None:
        """Forget what was logged when it is much: a line for each request adds up."""
        if os.fstat(self._log.fileno()).st_size > LOG_BYTES:
            self._log.truncate(0)

    def stop(self) -> None:
        """Stop all processes: first in order, then at once."""
        try:
            for number in (signal.SIGTERM, signal.SIGTERM):  # the second one ends its patience
                if self._process.poll() is None:
                    self._process.send_signal(number)
                    self._wait()
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._log.close()

    def _wait(self) -> None:
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return

    def _last_words(self) -> str:
        """Return why the start was refused or given up, which the supervisor says last."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        if _REFUSED in lines:
            reasons = lines[lines.index(_REFUSED) + 1 :]
        else:
            said = [line.removeprefix(_SUPERVISOR) for line in lines if line.startswith(_SUPERVISOR)]
            after = said[said.index(_STOPPING) + 1 :] if _STOPPING in said else said
            reasons = [line for line in after if not line.endswith(_KILLED)]
        return " ".join(reasons) or f"it ended with exit code {self._process.returncode}"


def _ping(port: int) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()
