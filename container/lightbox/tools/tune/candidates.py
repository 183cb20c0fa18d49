"""Candidates to try: changes of settings that cannot change a response, only its time."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import TransportName
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO
from lightbox.supervisor.starting.chosen_transports import usual_transports

PARAMETERS = (
    "engine",
    "intra_op_parallelism",
    "workers",
    "threads",
    "transports",
    "enable_batching",
    "inter_op_parallelism",
)
"""The fields that are turned, those that gain most at first: where time is short the last ones are left out."""

AFFECT_ONE_CLIENT = frozenset({"engine", "intra_op_parallelism", "transports", "inter_op_parallelism"})
"""Those that one request at a time can gain from: it takes one thread of one worker, and waits for no batch."""


@dataclass(frozen=True)
class Change:
    """Another value of one parameter; ``variables`` are environment variables with their values."""

    parameter: str
    variables: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Candidate:
    """Changes of different parameters that are tried together."""

    changes: tuple[Change, ...]

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables of all changes."""
        return dict(pair for change in self.changes for pair in change.variables)

    @property
    def affects_one_client(self) -> bool:
        """Whether one request at a time can gain from it."""
        return all(change.parameter in AFFECT_ONE_CLIENT for change in self.changes)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.environ.items())


def single_changes(settings: Settings, clients: int) -> list[Candidate]:
    """Return each value that is worth trying instead of the present one: first one of every parameter, then the others.

    ``clients`` is how many requests there are at once when throughput is measured.
    """
    columns = [list(_changes(parameter, settings, clients)) for parameter in PARAMETERS]
    return [Candidate((change,)) for row in zip_longest(*columns) for change in row if change is not None]


def combined(candidates: Sequence[Candidate]) -> Candidate:
    """Return all changes at once; of two with the same parameter the first counts."""
    by_parameter: dict[str, Change] = {}
    for candidate in candidates:
        for change in candidate.changes:
            by_parameter.setdefault(change.parameter, change)
    return Candidate(tuple(sorted(by_parameter.values(), key=lambda change: PARAMETERS.index(change.parameter))))


def _changes(parameter: str, settings: Settings, clients: int) -> Iterator[Change]:
    for values in _values(parameter, settings, clients):
        yield Change(parameter, tuple((variable_names(field)[0], value) for field, value in values.items()))


def _values(parameter: str, settings: Settings, clients: int) -> Iterable[Mapping[str, str]]:
    if parameter == "engine":
        return _engines(settings)
    if parameter == "transports":
        return [{parameter: ",".join(_other_transport_first(settings))}]
    if parameter == "enable_batching":
        return _batching(settings)
    if parameter == "workers":
        cores = available_cores()
        return _other_numbers(parameter, [1, cores // 2, cores, 2 * cores], settings.workers)
    if parameter == "threads":
        return _other_numbers(parameter, _threads(settings, clients), settings.threads)
    present = getattr(settings, parameter)
    return _other_numbers(parameter, _parallelism(present), present)


def _engines(settings: Settings) -> list[Mapping[str, str]]:
    """Return the default, which has measured the engines, instead of one that is named, if there are two."""
    if settings.engine in (None, AUTO) or importlib.util.find_spec("openvino") is None:
        return []
    return [{"engine": AUTO}]


def _other_numbers(field: str, numbers: Iterable[int], present: int) -> list[Mapping[str, str]]:
    return [{field: str(number)} for number in dict.fromkeys(numbers) if number != present and number >= 0]


def _other_transport_first(settings: Settings) -> list[TransportName]:
    """Return REST as the default transport, or in its place the usual one; of several the present one stays on."""
    usual = usual_transports(settings)
    default, *others = settings.transports or usual
    other = usual[0] if default == TransportName.REST else TransportName.REST
    return [other, default] if others else [other]


def _parallelism(present: int) -> list[int]:
    """Return numbers of TensorFlow's threads; 0 means all cores of the process."""
    everything = len(os.sched_getaffinity(0))
    cores = available_cores()
    numbers = [1, cores // 2, cores] if present == 0 else [0, 1, cores // 2]
    return [number for number in numbers if (number or everything) != (present or everything)]


def _threads(settings: Settings, clients: int) -> list[int]:
    """Return numbers of threads in each worker that let more or fewer of ``clients`` requests be in progress."""
    needed = -(-clients // settings.workers)
    return [number for number in (2, 1, 4, 8, 16) if min(number, needed) != min(settings.threads, needed)]


def _batching(settings: Settings) -> list[Mapping[str, str]]:
    if settings.enable_batching:
        return [{"enable_batching": "false"}]
    size = str(settings.max_batch_size)
    return [
        {"enable_batching": "true", "max_batch_size": size, "batch_timeout_micros": micros} for micros in ("1000", "0")
    ]
