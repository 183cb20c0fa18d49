"""The environment of the children: where Python finds Lightbox, heaps of malloc, threads of libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lightbox.base.machine.environment import environment, variable

CONTAINER_DIR = Path(__file__).resolve().parents[3]
WORKER_MEMORY = {
    # glibc gives each thread its own heap, and image buffers fragment each of them.
    "MALLOC_ARENA_MAX": "1",
    # The next request needs the freed memory: returned to the kernel, it comes back one page fault at a time.
    "MALLOC_TRIM_THRESHOLD_": str(8 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(16 << 20),
    # Libraries start a thread for each of the machine's cores, in each worker.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
"""Memory settings of workers, unless the environment has others."""


def with_sources(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with this source root on Python's path.

    An installed Lightbox needs no entry: PYTHONPATH comes before the standard library, so other packages in the same
    folder could shadow its modules.
    """
    root = "" if CONTAINER_DIR.name in ("site-packages", "dist-packages") else str(CONTAINER_DIR)
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, environ.get("PYTHONPATH")]))}


def child_environ() -> dict[str, str]:
    """Return the children's environment: ours, with this source root on the path."""
    environ = with_sources(environment())
    # glibc gives each thread its own heap, and image buffers fragment each of them.
    environ.setdefault("MALLOC_ARENA_MAX", "2")
    environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's; engines have threads of their own
    return environ | {"PYTHONUNBUFFERED": "1"}


def worker_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` with the memory settings, for processes that decode images."""
    return dict(environ) | {name: value for name, value in WORKER_MEMORY.items() if not variable(name)}
