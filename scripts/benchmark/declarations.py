"""The words in which scenarios are declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from benchmark.clients import Client, Load
from benchmark.servers import Server

T = TypeVar("T")
BOUND = "the bound"
"""The row of an experiment's bound."""


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

    In a sweep ``x`` is this experiment's place on the axis. ``bound`` is an image for mobilenet_v2, with which
    the bound is measured in each round. Each client first sends ``warm_up`` requests, or one from each of the load's
    clients where these are more.
    """

    key: str
    title: str
    variants: tuple[Variant, ...]
    load: Load
    rounds: int = 1
    warm_up: int = 3
    bound: bytes | None = field(default=None, repr=False)
    x: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A question and the experiments that answer it, with its duration in minutes on two cores.

    ``axes`` name the axis of each sweep by the key of its experiments.
    """

    key: str
    title: str
    question: str
    minutes: float
    experiments: tuple[Experiment, ...]
    axes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """Return how often a load is sent, over all experiments and variants."""
        return sum(experiment.rounds * len(experiment.variants) for experiment in self.experiments)
