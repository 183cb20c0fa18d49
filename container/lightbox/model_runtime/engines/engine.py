"""The base class of engines: which models they open, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lightbox.model_runtime.engines import ENGINES
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.hardware import LEVELS, PRECISIONS, Hardware
from lightbox.model_runtime.wire.status import invalid


class Choice(NamedTuple):
    """The engine of a signature and, in a sentence, the reason."""

    engine: str
    reason: str


@dataclass(frozen=True)
class OpenOptions:
    """How a model is opened. An engine ignores the options that it does not need."""

    hardware: Hardware
    tags: tuple[str, ...]
    """Of the graph, in a file with several."""
    session_config: bytes = b""
    """A serialized ``ConfigProto``."""
    is_guarded: bool = True
    """Whether inputs that would crash the process are refused, see RankGuard."""
    batches: Sequence[int] = (1,)
    """The most common numbers of rows of calls."""
    chosen: Mapping[str, str] | None = None
    """The engine of each signature, where another process has decided."""


class Opened(NamedTuple):
    """A model that runs calls, and the reasons for its engines; empty without a choice."""

    runner: Runner
    choices: Mapping[str, Choice]


class Engine(ABC):
    """Opens models. Methods import what they need: an unused engine costs only this class."""

    name: str
    package: str
    """The required package, by its import name."""
    sets_results = False
    """Whether its results are the reference for the other engines that open the same model."""

    follows_files = False
    """Whether its results are those of the file's specification, also of integers and positions outside a tensor."""

    precisions: Sequence[str] = PRECISIONS[:1]
    """In what it computes."""

    levels: Sequence[str] = LEVELS[:1]
    """How far it may optimise a graph."""

    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None

    def check_installed(self) -> None:
        """Raise INVALID_ARGUMENT if it is not installed."""
        if not self.is_installed():
            raise invalid(f"engine {self.name}: the package {self.package} is not installed")

    @abstractmethod
    def opens(self, folder: Path) -> bool:
        """Return whether the model in a folder is in a format of this engine."""

    def departures(self, folder: Path) -> list[str]:
        """Return what it is known to compute otherwise than the specification of a model's file."""
        return []

    @abstractmethod
    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load and warm up the model in a folder; raise StatusError with the reason for a refusal."""

    def open_beside(self, folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
        """Open the signatures that it runs as the reference engine does, and faster; None if there are none.

        ``reference`` opens the model in the reference engine for all other calls; None if that is not installed.
        """
        return None

    def choices(self, folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return the engine of each signature for ``open_beside``.

        Without ``compares`` only known results count. With ``keeps`` the folder stores them. Raises StatusError, and
        OSError if they cannot be stored.
        """
        return {}


def engines() -> list[Engine]:
    """Return all engines."""
    return [named(name) for name in ENGINES]


def named(name: str) -> Engine:
    """Return the engine with a name in ``ENGINES``."""
    found: Engine = import_module(f"lightbox.model_runtime.engines.{name}").ENGINE
    return found
