"""The features' additions to a start. The supervisor knows these types only, and not the features."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightbox.base.telemetry.metrics import Metric
from lightbox.model.catalogue import PlannedModel


@dataclass(frozen=True)
class Port:
    """A port of nginx for callers: its variable, its number and its purpose."""

    variable: str
    number: int
    purpose: str


@dataclass(frozen=True)
class ServedModels:
    """The models of a model server: ``names`` are all of them, ``models`` returns those that can be loaded now and
    drops the others. ``note`` is logged: "models are loaded by ..."."""

    names: Callable[[], Iterable[str]]
    models: Callable[[], Iterable[PlannedModel]]
    note: str = ""


@dataclass(frozen=True)
class ChildSpec:
    """A process that serves callers beside gunicorn: ``python -m lightbox.serving.front MODULE PLAN ARGUMENTS``.

    The supervisor keeps it running and stops it before nginx, or after nginx if it is ``behind`` it. It listens at
    those of its arguments that ``listens`` names, ``unix:/path``, and gets ``fd://NUMBER`` in their place; unless it
    answers at the first one, /ping is not 200. ``title`` names it in messages. It gets the signal ``renew`` when nginx
    replaces its workers, in time to end the connections of the old ones; ``behind`` nginx also while nginx stops.
    """

    name: str
    title: str
    module: str
    arguments: Sequence[str]
    listens: Sequence[str]
    renew: signal.Signals | None = None
    behind: bool = False


Probe = Callable[[bool], Mapping[str, bool | str]]
"""Returns the fields of a probe's response, given readiness; the status is 503 if not ready or any field is false."""


Measured = float | Mapping[Any, float]
"""A metric's value, or one for each value of its label, or for each tuple of the values of several."""


@dataclass(frozen=True)
class IncomingRequest:
    """A request before its body is read. ``headers`` are the caller's, in the form of ``headers_of``.

    ``path`` is nginx's normalized path: decoded, without dots and double slashes; "" if it has control characters.
    """

    method: str
    path: str
    headers: Mapping[str, str]

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case; None if absent."""
        return self.headers.get(name.lower())


@dataclass(frozen=True)
class Admitted:
    """A caller that may come in: its name, "" for none, and its limits.

    ``at_once`` is how many requests it may have at once, None without a limit. ``batch`` is whether all have the lower
    priority. ``headers`` are for its response.
    """

    name: str = ""
    at_once: int | None = None
    batch: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


Authenticator = Callable[[IncomingRequest], Awaitable[Admitted]]
"""Raises LightboxError to refuse the request."""


@dataclass(frozen=True)
class NginxParts:
    """Additions to nginx.conf: ``http`` for its http block, ``server`` for its server block.

    Both may contain the placeholders of nginx.conf and those of ``places``: paths and other values, in double quotes.
    ``clients`` turns callers away in each server block that they reach, also for gRPC.
    ``listens`` are internal addresses of ``server``, ``unix:/path`` or ``host:port``, which the supervisor opens. With
    ``asks_always`` nginx consults the supervisor about every request, and not only about large bodies.
    """

    http: str = ""
    server: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    clients: str = ""
    listens: Sequence[str] = ()
    asks_always: bool = False

    @classmethod
    def of(cls, folder: Path, **places: str) -> NginxParts:
        """Return the parts in a feature's folder: ``http.conf``, ``server.conf`` or both."""
        files = [folder / "http.conf", folder / "server.conf"]
        http, server = (file.read_text() if file.exists() else "" for file in files)
        return cls(http, server, places)


@dataclass(frozen=True)
class StartNeeds:
    """The features' requirements of a start, derived from the settings.

    ``ports`` are open to callers. ``why_rest`` is the reason for the model server's REST API, None if no feature needs
    it. Each of ``checks`` raises StartError if a requirement of a feature is missing. ``nginx`` are the variables
    that are set and have no effect without nginx. ``loads_models`` is the request that loads models, None if a start
    finds them.
    """

    ports: Sequence[Port] = ()
    why_rest: str | None = None
    checks: Sequence[Callable[[], None]] = ()
    nginx: Sequence[str] = ()
    loads_models: str | None = None


NO_NEEDS = StartNeeds()


@dataclass(frozen=True)
class Additions:
    """The features' additions to the supervisor's work.

    ``workers`` is the number of ``children`` that answer requests as gunicorn does. ``tasks`` run in the supervisor.
    ``probes`` are paths beside /ping that the supervisor answers by itself, also without workers. ``served`` are the
    models of a starting model server. ``shown`` are the paths of pages for people, by name, and ``direct`` are those
    that predict with any body. ``without_nginx`` are the parts of features that are missing without it.
    ``measure`` returns values for /metrics. ``authenticator`` checks each request; None admits all. ``callers``
    describes the admitted callers.
    """

    ports: Sequence[Port]
    children: Sequence[ChildSpec]
    workers: int
    nginx: Sequence[NginxParts]
    probes: Mapping[str, Probe]
    tasks: Callable[[], Iterable[Coroutine[Any, Any, None]]]
    served: ServedModels
    shown: Mapping[str, str]
    direct: Sequence[str]
    without_nginx: Sequence[str]
    measure: Callable[[], Mapping[Metric, Measured]]
    authenticator: Authenticator | None = None
    callers: str | None = None
