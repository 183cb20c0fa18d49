"""Reads the CPU seconds and memory of a server's processes, by role."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil

ROLES = (
    ("nginx", "nginx"),
    ("gunicorn", "gunicorn"),
    ("lightbox.features.open_inference.grpc.front", "gRPC front"),
    ("lightbox.features.streams.process", "stream worker"),
    ("lightbox.model_runtime.server", "model server"),
    ("model_server", "model server"),
    ("lightbox", "supervisor"),
)
"""A part of the command line, and what such a process is called; the first that fits counts."""
Sizes = dict[str, int]
"""Bytes of the processes of each role, as proportional set sizes: a shared page is divided among those who share it."""


def role_of(command_line: str) -> str:
    """Return the role of a process, by its command line."""
    return next((role for part, role in ROLES if part in command_line), "server")


def family(pid: int) -> Iterator[tuple[str, psutil.Process]]:
    """Yield a process and its descendants with their roles."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                yield role_of(" ".join(process.cmdline())), process


def cpu_seconds(pid: int, ended: bool = False) -> dict[str, float]:
    """Return the CPU seconds (user and system) of a server's processes, by role.

    With ``ended``, the time of reaped children counts too.
    """

    def used(process: psutil.Process) -> float:
        times = process.cpu_times()
        return float(times.user + times.system + ended * (times.children_user + times.children_system))

    return _summed(pid, used)


def memory(pid: int) -> Sizes:
    """Return the memory of a server's processes."""
    return {role: int(size) for role, size in _summed(pid, lambda process: process.memory_full_info().pss).items()}


def _summed(pid: int, figure: Callable[[psutil.Process], float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for role, process in family(pid):
        with suppress(psutil.Error):
            found[role] = found.get(role, 0.0) + figure(process)
    return found


@contextmanager
def noting_memory(pid: int, pause: float = 1.0) -> Iterator[list[Sizes]]:
    """Give a list of memory samples: at the start of the ``with`` block, every ``pause`` seconds, and at its end."""
    noted, stop = [memory(pid)], threading.Event()

    def note() -> None:
        while not stop.wait(pause):
            noted.append(memory(pid))

    with ThreadPoolExecutor(1) as pool:
        noting = pool.submit(note)
        try:
            yield noted
        finally:
            stop.set()
    noting.result()
    noted.append(memory(pid))
