"""What the processes of a server use: CPU seconds and memory, by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

ROLES = (
    ("nginx", "nginx"),
    ("gunicorn", "gunicorn"),
    ("lightbox.features.open_inference.grpc_worker", "gRPC front"),
    ("model_server", "model server"),
    ("lightbox", "supervisor"),
)
"""A part of the command line, and what such a process is called; the first that fits counts."""


@dataclass
class Usage:
    """CPU seconds since each process started, proportional set size and resident size in bytes, by role."""

    cpu: dict[str, float] = field(default_factory=dict)
    pss: dict[str, int] = field(default_factory=dict)
    rss: dict[str, list[int]] = field(default_factory=dict)


def role_of(command_line: str) -> str:
    """Return what a process is, by its command line."""
    return next((role for part, role in ROLES if part in command_line), "server")


def family(pid: int) -> Iterator[tuple[str, psutil.Process]]:
    """Yield a process and all below it with their roles."""
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in members:
        try:
            yield role_of(" ".join(process.cmdline())), process
        except psutil.NoSuchProcess:
            continue


def cpu_seconds(pid: int) -> dict[str, float]:
    """Return the CPU seconds, user and system, that a server's processes have used, by role."""
    used: dict[str, float] = {}
    for role, process in family(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used[role] = used.get(role, 0.0) + times.user + times.system
    return used


def memory(pid: int) -> Usage:
    """Return the memory of a server's processes: shared pages are divided among those who share them."""
    usage = Usage()
    for role, process in family(pid):
        try:
            resident = process.memory_info().rss
            proportional = _pss(process) or resident
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        usage.pss[role] = usage.pss.get(role, 0) + proportional
        usage.rss.setdefault(role, []).append(resident)
    return usage


def _pss(process: psutil.Process) -> int | None:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):
        return None
