"""The classes that declare scenarios."""

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
    """The length of a run: ``quick`` is a smoke test, ``full`` gives figures worth quoting."""

    name: Literal["quick", "full"]

    def pick(self, quick: T, full: T) -> T:
        """Return the value for this scale."""
        return quick if self.name == "quick" else full


@dataclass(frozen=True)
class Variant:
    """One of the alternatives that are compared: a client that calls a server."""

    name: str
    server: Server
    client: Client


@dataclass(frozen=True)
class Experiment:
    """Variants under the same load, in alternating rounds.

    In a sweep ``x`` is this experiment's position on the axis. ``bound`` is an image for mobilenet_v2, with which
    each round measures the bound. Each client first sends ``warm_up`` requests, or one from each of the load's
    clients if these are more.
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
    """The experiments of one page; ``axes`` name the axis of each sweep by the key of its experiments."""

    key: str
    experiments: tuple[Experiment, ...]
    axes: Mapping[str, str] = field(default_factory=dict)
