"""Counts the bytes on the hops inside a stack, with relays that stand between its processes.

The model server is reached through a program of its name, first on PATH, that starts the true one on other
addresses (counting_model_server.py). nginx reaches gunicorn through a relay that takes the place of gunicorn's
socket. Counted stacks are slower, so nothing is timed on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmark.servers.base import REPOSITORY
from benchmark.servers.relay import Counter, new_counter

HOPS = ("nginx-sidecar", "sidecar-model server gRPC", "sidecar-model server REST")
SOCKET_SECONDS = 300.0


@dataclass(frozen=True)
class HopBytes:
    """Bytes towards the model and back."""

    there: int
    back: int

    def __sub__(self, earlier: HopBytes) -> HopBytes:
        return HopBytes(self.there - earlier.there, self.back - earlier.back)


def counter_path(tmp: Path, hop: str) -> Path:
    """Return where a hop's counter lies."""
    return tmp / (hop.replace(" ", "_") + ".count")


def read_hops(tmp: Path) -> dict[str, HopBytes]:
    """Return what has passed each hop so far."""
    return {hop: HopBytes(*Counter(counter_path(tmp, hop)).read()) for hop in HOPS}


def put_before_model_server(tmp: Path, environ: dict[str, str]) -> None:
    """Let a stack with this environment find the counting program before any other model server."""
    for hop in HOPS:
        new_counter(counter_path(tmp, hop))
    program = tmp / "bin" / "tensorflow_model_server"
    program.parent.mkdir()
    source = Path(__file__).with_name("counting_model_server.py")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{source}" "{tmp}" "$@"\n')
    program.chmod(0o755)
    environ["PATH"] = f"{program.parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
    environ["LIGHTBOX_MODEL_SERVER"] = "tensorflow_model_server"


def put_before_sidecar(tmp: Path, run_dir: Path) -> None:
    """Put a relay where nginx looks for gunicorn's socket; it ends with the stack."""
    socket, behind = run_dir / "sidecar.sock", run_dir / "behind.sock"
    socket.rename(behind)
    command = [sys.executable, "-m", "benchmark.servers.relay", str(counter_path(tmp, HOPS[0]))]
    environ = dict(os.environ) | {"PYTHONPATH": str(REPOSITORY / "scripts")}
    subprocess.Popen([*command, f"unix:{socket}", f"unix:{behind}"], env=environ)  # noqa: S603 - our own module
    deadline = time.monotonic() + SOCKET_SECONDS
    while not socket.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the relay at {socket} did not start")
        time.sleep(0.01)
