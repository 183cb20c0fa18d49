"""What features add to a start: the supervisor knows these, and no feature."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightbox.model.catalogue import PlannedModel
from lightbox.telemetry.metrics import Metric


@dataclass(frozen=True)
class Port:
    """A port of nginx's on all interfaces: the variable that names it, its number, and what callers find there."""

    variable: str
    number: int
    purpose: str


@dataclass(frozen=True)
class ServedModels:
    """The models that a model server is to have: ``names`` are those of all, ``models`` returns those that can be
    loaded now, and forgets the others. ``note`` is how they come, for the log: "models are loaded by ..."."""

    names: Callable[[], Iterable[str]]
    models: Callable[[], Iterable[PlannedModel]]
    note: str = ""


@dataclass(frozen=True)
class ChildSpec:
    """A process that serves callers beside gunicorn: ``python -m lightbox.front MODULE PLAN ARGUMENTS``.

    The supervisor keeps it running, and stops it before nginx; where it answers ``behind`` nginx, after. It listens at
    ``address``, ``unix:/path`` or ``host:port``; /ping is 200 only while it does. ``title`` names it in a sentence. It
    gets the signal ``renew`` when nginx replaces its workers, in time to end the connections that they carry; one
    ``behind`` nginx gets it while nginx stops, too.
    """

    name: str
    title: str
    module: str
    arguments: Sequence[str]
    address: str
    renew: signal.Signals | None = None
    behind: bool = False


Probe = Callable[[bool], Mapping[str, bool]]
"""Returns what a path answers, given whether requests can be served: with 503 if they cannot and any of it is false."""


Measured = float | Mapping[str, float]
"""A metric's value, or one for each value of its label."""


@dataclass(frozen=True)
class IncomingRequest:
    """A request that nginx asks about before it reads the body. ``headers`` are the caller's, as ``headers_of`` tells.

    ``path`` is as nginx reads it: decoded, without dots and doubled slashes; "" where it has control characters.
    """

    method: str
    path: str
    headers: Mapping[str, str]

    def header(self, name: str) -> str | None:
        """Return a header, whatever its name's case; None for one that did not come."""
        return self.headers.get(name.lower())


def headers_of(head: bytes) -> dict[str, str]:
    """Return the headers of an HTTP message by their names in lower case, of several of one name the first.

    A caller may send a thousand of them with each request: email's parser would take milliseconds.
    """
    found: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        found.setdefault(name.lower(), value.strip(" \t"))
    return found


Authenticator = Callable[[IncomingRequest], Awaitable[str]]
"""Returns the name of a caller who may come in, "" for none; raises LightboxError to refuse."""


@dataclass(frozen=True)
class NginxParts:
    """What nginx.conf gets: ``http`` in its http block, ``server`` in its server block.

    Both may have the placeholders of the file, and those of ``places``: paths and the like, in double quotes.
    ``listens`` are addresses in ``server`` for callers inside, ``unix:/path`` or ``host:port``: the supervisor opens
    them. With ``asks_always`` nginx asks the supervisor about every request, not only about those with large bodies.
    """

    http: str = ""
    server: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    listens: Sequence[str] = ()
    asks_always: bool = False

    @classmethod
    def of(cls, folder: Path, **places: str) -> NginxParts:
        """Return what a feature's folder has: ``http.conf`` and ``server.conf``, or one of them."""
        files = [folder / "http.conf", folder / "server.conf"]
        http, server = (file.read_text() if file.exists() else "" for file in files)
        return cls(http, server, places)


@dataclass(frozen=True)
class StartNeeds:
    """What features want of a start, told by the settings alone.

    ``ports`` are open to callers. ``why_rest_port`` is why the model server's REST port is open, None if no feature
    needs it. Each of ``checks`` raises StartError where what a feature needs cannot be had. ``nginx`` are the variables
    that are set and mean nothing without nginx.
    """

    ports: Sequence[Port] = ()
    why_rest_port: str | None = None
    checks: Sequence[Callable[[], None]] = ()
    nginx: Sequence[str] = ()


NO_NEEDS = StartNeeds()


@dataclass(frozen=True)
class Additions:
    """What features add to the supervisor's work.

    ``workers`` is how many of the ``children`` answer requests as gunicorn does. ``tasks`` run beside the children.
    ``probes`` are what the supervisor itself answers beside /ping, by path: at once, and while no worker can.
    ``served`` are the models of a model server that is about to start. ``shown`` is what a person opens, by name.
    ``measure`` returns values for /metrics, of which ``counters`` are those that only grow. ``authenticator`` checks
    each request; None admits all. ``callers`` describes the admitted callers.
    """

    ports: Sequence[Port]
    children: Sequence[ChildSpec]
    workers: int
    nginx: Sequence[NginxParts]
    probes: Mapping[str, Probe]
    tasks: Callable[[], Iterable[Coroutine[Any, Any, None]]]
    served: ServedModels
    shown: Mapping[str, str]
    measure: Callable[[], Mapping[Metric, Measured]]
    counters: Collection[Metric]
    authenticator: Authenticator | None = None
    callers: str | None = None
