"""Disables the monkey patches of gevent and eventlet, which handlers for AWS's gevent workers apply.

They replace the threads, locks and sockets of the whole process, and a worker with running threads hangs after that.
The workers do not need them: their threads wait concurrently, as greenlets would.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

log = logging.getLogger("lightbox")

PATCHES = {"gevent.monkey": "patch_", "eventlet.patcher": "monkey_patch"}
"""Modules with functions that patch the process, and the prefixes of their names."""


def disable_patches() -> None:
    """Disable the patches in modules that are imported from now on."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in PATCHES else None
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchFreeLoader(spec.loader)
        return spec


class _PatchFreeLoader(Loader):
    """Loads a module with ``loader`` and disables its patches."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for name in [name for name in vars(module) if name.startswith(PATCHES[module.__name__])]:
            if callable(getattr(module, name)):
                setattr(module, name, _nothing(f"{module.__name__}.{name}"))


def _nothing(name: str) -> Any:
    def patch(*_: Any, **__: Any) -> None:
        log.info("%s() is disabled: each request has a thread of its own, which may wait", name)

    return patch


_FINDER = _Finder()
