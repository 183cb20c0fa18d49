"""The kinds of process in a running stack, by what they are, and the memory of each."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

KINDS = (
    "model server",
    "gunicorn worker",
    "gunicorn master",
    "gRPC front",
    "stream worker",
    "nginx master",
    "nginx worker",
)
"""Those that are killed; the supervisor is the one that brings them back."""


def by_kind(supervisor: int) -> dict[str, list[psutil.Process]]:
    """Return the living processes of a stack by kind, the supervisor among them."""
    found: dict[str, list[psutil.Process]] = {kind: [] for kind in ("supervisor", *KINDS)}
    root = psutil.Process(supervisor)
    found["supervisor"].append(root)
    for process in root.children(recursive=True):
        try:
            kind = _kind(" ".join(process.cmdline()), process.ppid() == supervisor)
            if kind and process.status() != psutil.STATUS_ZOMBIE:
                found[kind].append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _kind(command: str, child_of_supervisor: bool) -> str | None:
    if "nginx: master" in command:
        return "nginx master" if child_of_supervisor else None
    if "nginx: worker process" in command:
        return None if "shutting down" in command else "nginx worker"
    if "gunicorn" in command:
        return "gunicorn master" if child_of_supervisor else "gunicorn worker"
    if "lightbox.features.open_inference.grpc_worker" in command:
        return "gRPC front" if child_of_supervisor else None
    if "lightbox.features.streams.worker" in command:
        return "stream worker" if child_of_supervisor else None
    return "model server" if "model_server" in command and child_of_supervisor else None


def memory(supervisor: int) -> Mapping[str, int]:
    """Return the resident size of each kind of process in bytes, summed over those of the kind."""
    sizes = {}
    for kind, processes in by_kind(supervisor).items():
        sizes[kind] = 0
        for process in processes:
            try:
                sizes[kind] += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
    return sizes
