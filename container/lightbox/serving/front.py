"""A process that serves callers beside gunicorn: ``python -m lightbox.serving.front MODULE PLAN ARGUMENTS``.

``MODULE`` is a feature's. Its ``main`` takes a ``Front`` and the arguments, and serves until SIGTERM.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightbox.base.telemetry import output
from lightbox.core.feature import Front
from lightbox.features import enabled
from lightbox.serving.settings_loading import load_settings

if TYPE_CHECKING:
    from lightbox.core.services import Services


def run(module: str, plan_file: Path, arguments: list[str]) -> None:
    """Let a feature's module serve."""

    def assemble(process: str) -> Services:
        # Late: a process that answers no requests itself stays as small as it is.
        services: Services = _imported("lightbox.serving.worker").assemble(plan_file, process)
        return services

    settings = load_settings()
    _imported(module).main(Front(settings, enabled(settings), assemble), *arguments)


def _imported(module: str) -> Any:
    """Import a module without garbage collections: what stays anyway would be scanned for a tenth of the time."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.stdout, sys.stderr = (output.log_to(descriptor, waits=False) for descriptor in (1, 2))
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
