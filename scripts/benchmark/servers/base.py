"""Starting, waiting for and stopping the processes of a server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from benchmark.servers.address import Address

REPOSITORY = Path(__file__).resolve().parents[3]
START_SECONDS = 120.0


class ServerFailed(Exception):
    """A server did not start; the message ends with the last lines of its log."""


@dataclass
class Running:
    """A server that answers; ``started`` holds seconds from its start to each mark, ``ready`` the last of them."""

    name: str
    process: subprocess.Popen[bytes]
    address: Address
    log: Path
    started: dict[str, float] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    run_dir: Path | None = None
    temporary: Path | None = None

    def stop(self) -> None:
        """Ask the server to stop, then make sure that nothing of it stays."""
        try:
            family = [*psutil.Process(self.process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in family:
            if child.is_running():
                child.kill()
        if self.temporary:
            shutil.rmtree(self.temporary, ignore_errors=True)


class Server(Protocol):
    """What can be started; comparable, so that scenarios that name the same server share it."""

    @property
    def name(self) -> str:
        """A few words for the pages."""
        ...

    def start(self, folder: Path) -> Running:
        """Start the server with its files in a folder of its own, and return when it answers."""
        ...

    def counting(self) -> Server | None:
        """Return the same server with byte counters on its inner hops, or None where it has none."""
        ...


def launch(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a process with its output in a log file."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the commands are this package's own
            command, cwd=folder, env=dict(environ), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return process, log


def wait_until(check: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> float:
    """Return the seconds until ``check`` holds; raise ServerFailed when the process ends or takes too long."""
    started = time.perf_counter()
    while time.perf_counter() - started < START_SECONDS:
        if process.poll() is not None:
            raise ServerFailed(f"it ended with {process.returncode}; {tail(log)}")
        if check():
            return time.perf_counter() - started
        time.sleep(0.01)
    raise ServerFailed(f"it did not answer within {START_SECONDS:g} s; {tail(log)}")


def tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log."""
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return f"the end of {log}:\n" + "\n".join(text)


def clean_environ(**more: str) -> dict[str, str]:
    """Return the environment without settings of this shell that would reach a server."""
    ours = ("LIGHTBOX_", "SAGEMAKER_", "PREDICT_USING_GRPC")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)} | more


def status_of(port: int, path: str, verb: str = "GET") -> int | None:
    """Return the status that a server on loopback answers, None when it does not."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(verb, path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
