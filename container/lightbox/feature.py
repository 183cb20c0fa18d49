"""What a feature may add to Lightbox.

A feature is a folder of ``lightbox.features``, and a subclass of ``Feature`` in it. The rest of Lightbox calls the
members of that class, and knows no feature by name. What a feature needs to do its work is imported in its methods: so
one that is off costs a process nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from lightbox.request_context import RequestContext
from lightbox.settings import Settings
from lightbox.telemetry.metrics import Metric

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.processes.start import Start
    from lightbox.services import Services
    from lightbox.telemetry.logs import Observer

GrpcWork = Callable[[bytes, Callable[[str], str | None], RequestContext], bytes]
"""Answers a serialized message; the second argument looks up a header."""


@dataclass(frozen=True)
class ChildSpec:
    """A process that lets callers in beside nginx: ``python -m MODULE ARGUMENTS``.

    The supervisor keeps it running, and stops it first. It listens at ``address``, ``unix:/path`` or ``host:port``;
    /ping is 200 only while it does. ``title`` names it in a sentence. It gets the signal ``renew`` when nginx replaces
    its workers, in time to end the connections that they carry.
    """

    name: str
    title: str
    module: str
    arguments: Sequence[str]
    address: str
    renew: signal.Signals | None = None


@dataclass(frozen=True)
class NginxParts:
    """What nginx.conf gets: ``http`` in its http block, ``server`` in its server block.

    Both may have the placeholders of the file; ``@BOUNDS@`` are the limits of a location that passes requests on.
    Requests from the address ``uncounted`` do not count for the limits of an address.
    """

    http: str = ""
    server: str = ""
    uncounted: str | None = None


@dataclass(frozen=True)
class GrpcServices:
    """Services of the gRPC port: what answers their methods, and their names in the health service."""

    works: Mapping[str, Mapping[str, GrpcWork]] = field(default_factory=dict)
    health: Sequence[str] = ()


class NoSettings(BaseModel):
    """Of a feature that has none."""


class Feature:
    """Adds nothing, and is on; a feature overrides what it adds to."""

    name: ClassVar[str]
    settings: ClassVar[type[BaseModel]] = NoSettings
    """Its variables. A docstring below a field is its text on the settings page."""
    theme: ClassVar[str] = ""
    """Heading of its variables on that page."""
    gauges: ClassVar[Sequence[Metric]] = ()
    counters: ClassVar[Sequence[Metric]] = ()
    shown_at: ClassVar[str | None] = None
    """Path of what a person opens, to be told in the log when Lightbox is ready."""
    why_rest_port: ClassVar[str | None] = None
    """Why it needs the model server's REST port, to be told in the log; None if it does not."""

    def enabled(self, settings: Settings) -> bool:
        """Tell whether the settings turn it on."""
        return True

    def check(self, settings: Settings) -> None:
        """Raise StartError if it is on and cannot be had."""

    def prepare(self, start: Start) -> None:
        """Do what is to be done before the first process is started."""

    def children(self, start: Start) -> Iterable[ChildSpec]:
        """Return the processes that it needs."""
        return ()

    def nginx(self, start: Start) -> NginxParts:
        """Return its part of nginx.conf."""
        return NginxParts()

    def measure(self, run_dir: Path) -> Mapping[Metric, float]:
        """Return the values of ``gauges`` and ``counters``; they are asked for whether it is on or not."""
        return {}

    def observers(self) -> Iterable[Observer]:
        """Return what is to hear of every request in a worker."""
        return ()

    def routes(self, services: Services) -> Iterable[Blueprint]:
        """Return its routes in a worker."""
        return ()

    def operations(self) -> Mapping[tuple[str, str], Any]:
        """Return the description of each of its routes, by method and rule, for OpenAPI."""
        return {}

    def grpc(self, services: Services) -> GrpcServices:
        """Return its services at the port for gRPC, where there is one."""
        return GrpcServices()
