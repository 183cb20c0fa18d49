"""What an engine is: which models it opens, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lightbox.engines import ENGINES
from lightbox.engines.base import Runner
from lightbox.engines.hardware import Hardware
from lightbox.tfs_wire.status import invalid


class Choice(NamedTuple):
    """The engine that answers a signature and, in a sentence, why."""

    engine: str
    reason: str


@dataclass(frozen=True)
class OpenOptions:
    """How a model is opened. An engine passes over what it has no use for."""

    hardware: Hardware
    tags: tuple[str, ...]
    """Of the graph, in a file that may have several."""
    session_config: bytes = b""
    """A serialized ``ConfigProto``."""
    is_guarded: bool = True
    """Whether no input may end the process, see RankGuard."""
    batches: Sequence[int] = (1,)
    """Numbers of rows that calls will have most often."""


class Opened(NamedTuple):
    """A model that answers calls, and why so: nothing where nothing was to be decided."""

    runner: Runner
    choices: Mapping[str, Choice]


class Engine(ABC):
    """Opens models. What it needs is imported in its methods: an engine that is off costs this class."""

    name: str
    package: str
    """What has to be installed, as it is imported."""
    sets_answers = False
    """Whether the others have to answer as this one, where both open a model."""

    keeps_integers = False
    """Whether it computes integers as they are, and refuses positions that are not in a tensor."""

    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None

    def check_installed(self) -> None:
        """Raise INVALID_ARGUMENT where it is not."""
        if not self.is_installed():
            raise invalid(f"engine {self.name}: the package {self.package} is not installed")

    @abstractmethod
    def opens(self, folder: Path) -> bool:
        """Whether the model in a folder is in a file of its own kind."""

    @abstractmethod
    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load the model in a folder, warm; raise StatusError with what it refuses and why."""

    def open_beside(self, folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
        """Do so for what it answers as the engine that sets the answers, and better; None where that is nothing.

        ``reference`` opens the model in that one, for all other calls; it is None where that one is not installed.
        """
        return None

    def choices(self, folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return which engine answers each signature where it is asked to ``open_beside``.

        Unless it ``compares``, it only says what is known. If it ``keeps``, the folder holds what was found. Raises
        StatusError, and OSError where that cannot be written.
        """
        return {}


def engines() -> list[Engine]:
    """Return all engines."""
    return [named(name) for name in ENGINES]


def named(name: str) -> Engine:
    """Return the engine of a name in ``ENGINES``."""
    found: Engine = import_module(f"lightbox.engines.{name}").ENGINE
    return found
