"""The places of requests in all processes: how many each model has, waiting or in progress.

Each process counts in a row of its own. A killed one's row is cleared by the process that replaces it, or by one that
would refuse a request because of it.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lightbox.base.machine.shared_files import hold, release, shared_numbers
from lightbox.base.telemetry.metrics import claim_slot

FOLDER = "shares"
_HERE, _RUNNING, _REFUSED = _COLUMN_NUMBERS = range(3)
_COLUMNS = len(_COLUMN_NUMBERS)
_ROWS = 256
"""More than processes: at most 64 workers and the gRPC front, twice during a replacement."""
_MAPPED = 128
_ALL = ".all"
"""The file of all models without a concurrency of their own; no model has such a name."""
_UNKNOWN = ".unknown"
_KEY = ".key."
_CLEAR_SECONDS = 1.0


class Places:
    """At most ``most`` places for all models together, in ``run_dir``; not safe to use from several threads.

    A model may have no more places than are free, so that it leaves some for others, whose first request finds one. A
    model with a concurrency has that many places and ``waiting`` more, beside ``most``.
    """

    def __init__(self, run_dir: Path, most: int, waiting: int) -> None:
        self._folder = run_dir / FOLDER
        self._most = most
        self._waiting = waiting
        self._row, self._slot = claim_slot(self._folder)
        self._numbers = lru_cache(_MAPPED)(self._map)
        self._cleared = 0.0
        for name in self._names():
            self._clear(name, self._row)

    def of_key(self, name: str, at_once: int) -> ModelPlaces:
        """Return the places of a caller's key: ``at_once`` for all models."""
        return ModelPlaces(self, self._numbers(_KEY + name), at_once, at_once)

    def of(self, model: str, concurrency: int | None, alone: bool = False) -> ModelPlaces:
        """Return the places of a model, "" for requests that name no known one; one ``alone`` may have all."""
        most = concurrency + self._waiting if concurrency is not None else math.inf if alone else None
        return ModelPlaces(self, self._numbers(model or _UNKNOWN), concurrency, most)

    def allow(self, places: ModelPlaces) -> bool:
        """Return whether a model may have one more place."""
        if places.most is not None:
            return places.here() < places.most
        of_all: int = sum(self._numbers(_ALL)[_HERE::_COLUMNS])
        return places.here() + of_all < self._most

    def count(self, places: ModelPlaces, by: int) -> None:
        """Count a place of this process."""
        places.numbers[_COLUMNS * self._row + _HERE] += by
        if places.most is None:
            self._numbers(_ALL)[_COLUMNS * self._row + _HERE] += by

    def begin(self, places: ModelPlaces, by: int) -> None:
        """Count a request of this process that runs."""
        places.numbers[_COLUMNS * self._row + _RUNNING] += by

    def refuse(self, places: ModelPlaces) -> None:
        """Count a request that this process refuses."""
        places.numbers[_COLUMNS * self._row + _REFUSED] += 1

    def clear_rows_of_ended(self, places: ModelPlaces) -> None:
        """Clear the rows of processes that have ended and were not replaced, and have places that a model lacks.

        Looks once a second at most.
        """
        if time.monotonic() - self._cleared < _CLEAR_SECONDS:
            return
        self._cleared = time.monotonic()
        both = [numbers.tolist() for numbers in (places.numbers, self._numbers(_ALL))]
        for row in range(_ROWS):
            first = _COLUMNS * row
            is_used = any(numbers[first + _HERE] or numbers[first + _RUNNING] for numbers in both)
            if is_used and row != self._row and (slot := hold(self._folder / f"{row}.lock")) is not None:
                for name in self._names():
                    self._clear(name, row)
                release(slot)

    def _clear(self, name: str, row: int) -> None:
        numbers = self._numbers(name)
        numbers[_COLUMNS * row + _HERE] = numbers[_COLUMNS * row + _RUNNING] = 0

    def _names(self) -> list[str]:
        return [file.name for file in (self._folder / "models").glob("*")]

    def _map(self, name: str) -> memoryview[Any]:
        folder = self._folder / "models"
        folder.mkdir(exist_ok=True)
        return shared_numbers(folder / name, _COLUMNS * _ROWS)


class ModelPlaces:
    """The places of one model: three ``numbers`` for each process, its requests, those that run, and those refused.

    ``most`` is their number, None for a share of all.
    """

    def __init__(self, places: Places, numbers: memoryview[Any], concurrency: int | None, most: float | None) -> None:
        self._places = places
        self.numbers = numbers
        self.concurrency = concurrency
        self.most = most

    def here(self) -> int:
        """Return the model's requests in all processes."""
        return sum(self.numbers[_HERE::_COLUMNS])

    def enter(self) -> bool:
        """Take a place; return whether there was one."""
        if not self._places.allow(self):
            self._places.clear_rows_of_ended(self)
            if not self._places.allow(self):
                self.refuse()
                return False
        self._places.count(self, 1)
        return True

    def refuse(self) -> None:
        """Count a request that is refused."""
        self._places.refuse(self)

    def leave(self) -> None:
        """Give the place back."""
        self._places.count(self, -1)

    def begin(self) -> bool:
        """Count a request that runs, unless as many as the model's concurrency do in all processes."""
        self._places.begin(self, 1)
        if self.concurrency is None or sum(self.numbers[_RUNNING::_COLUMNS]) <= self.concurrency:
            return True
        # Two processes may refuse each other's last one. Each tries again.
        self._places.begin(self, -1)
        self._places.clear_rows_of_ended(self)
        return False

    def end(self) -> None:
        """Count a request that runs no more."""
        self._places.begin(self, -1)


class Counts(NamedTuple):
    """The requests of a model, or of a key, in all processes: present, running, and refused since the start."""

    here: int
    running: int
    refused: int


def counts_of_models(run_dir: Path) -> dict[str, Counts]:
    """Return the counts of each model that has places."""
    return {name: counts for name, counts in _counts(run_dir).items() if not name.startswith(".")}


def counts_of_keys(run_dir: Path) -> dict[str, Counts]:
    """Return the counts of each key that has a limit of requests at once."""
    return {name[len(_KEY) :]: counts for name, counts in _counts(run_dir).items() if name.startswith(_KEY)}


def _counts(run_dir: Path) -> dict[str, Counts]:
    found = {}
    with suppress(FileNotFoundError):
        for file in (run_dir / FOLDER / "models").iterdir():
            numbers = memoryview(file.read_bytes()).cast("q")
            found[file.name] = Counts(*(sum(numbers[column::_COLUMNS]) for column in _COLUMN_NUMBERS))
    return found
