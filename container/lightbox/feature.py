"""What a feature may add: settings, a part of nginx.conf, processes, metrics.

A feature is a folder of ``lightbox.features``. The rest of Lightbox calls the members of ``Feature`` and knows no
feature by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from lightbox.processes.fronts import ChildSpec
from lightbox.processes.nginx import NginxParts
from lightbox.processes.start import Start
from lightbox.settings import Settings
from lightbox.telemetry.metrics import Metric


class NoSettings(BaseModel):
    """Of a feature that has none."""


class Feature:
    """Adds nothing, and is on; a feature overrides what it adds to."""

    settings: ClassVar[type[BaseModel]] = NoSettings
    """Its variables. A docstring below a field is its text on the settings page."""
    theme: ClassVar[str] = ""
    """Heading of its variables on that page."""
    gauges: ClassVar[Sequence[Metric]] = ()
    counters: ClassVar[Sequence[Metric]] = ()

    def enabled(self, settings: Settings) -> bool:
        """Tell whether the settings turn it on."""
        return True

    def children(self, start: Start) -> Iterable[ChildSpec]:
        """Return the processes that it needs."""
        return ()

    def nginx(self, start: Start) -> NginxParts:
        """Return its part of nginx.conf."""
        return NginxParts()

    def measure(self, run_dir: Path) -> Mapping[Metric, float]:
        """Return the values of ``gauges`` and ``counters``; they are asked for whether it is on or not."""
        return {}
