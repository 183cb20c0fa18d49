"""The words in which scenarios are declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from benchmark.clients.base import Client, Load
from benchmark.servers.base import Server

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is measured: ``quick`` shows that all of it works, ``full`` gives figures worth quoting."""

    name: Literal["quick", "full"]

    def pick(self, quick: T, full: T) -> T:
        """Return the one that goes with this scale."""
        return quick if self.name == "quick" else full


@dataclass(frozen=True)
class Variant:
    """One way of doing the same thing: a client that calls a server."""

    name: str
    server: Server
    client: Client


@dataclass(frozen=True)
class Experiment:
    """Variants under the same load, round by round in turn.

    In a sweep ``x`` is this experiment's place on the axis. With ``counted`` calls the bytes on the inner hops
    are counted too, in a pass of its own that is not timed. ``floor`` names the variant that the others are
    divided by. With ``warm_up`` each client first sends so many requests, or one from each of the load's clients.
    """

    key: str
    title: str
    variants: tuple[Variant, ...]
    load: Load
    rounds: int = 1
    warm_up: int = 3
    floor: str | None = None
    counted: int = 0
    x: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A question and the experiments that answer it; ``sweeps`` name the axis of experiments by their key's stem."""

    key: str
    title: str
    question: str
    experiments: tuple[Experiment, ...]
    axes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
