"""The fastest engine of a model without a reference engine.

Each engine runs made-up inputs in a child process, which may crash; the lowest CPU time wins. Results are cached for
the file, the releases of the engines and the kind of processor.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from lightbox.engines import disk_cache
from lightbox.engines.base import Runner
from lightbox.engines.child import run
from lightbox.engines.engine import Choice, Engine, OpenOptions, named
from lightbox.engines.hardware import Hardware, processor
from lightbox.engines.samples import batches, sides
from lightbox.formats import model_file
from lightbox.tfs_wire.dtypes import DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_UINT16, DT_UINT32, DT_UINT64
from lightbox.tfs_wire.status import StatusError, invalid

log = logging.getLogger("model_server")

_ROUNDS, _LONGEST_SECONDS = 25, 1.0
_INTEGERS = {DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_UINT16, DT_UINT32, DT_UINT64}
"""Integer dtypes except uint8, which are pixels."""


@dataclass(frozen=True)
class _Measurement:
    """A child's result: ``refused`` is the reason for a refusal."""

    milliseconds: float | None = None
    """CPU time per row; None if the engine refuses all made-up inputs."""
    refused: str = ""


def fastest(folder: str, able: Sequence[Engine], hardware: Hardware) -> tuple[Engine, Choice]:
    """Return the engine that reads a model and takes the least CPU time, and the reason.

    For a model with integer inputs an engine that keeps integers is preferred. Raises INVALID_ARGUMENT with each
    engine's reason if none reads it.
    """
    places = _cache_files(folder, able, hardware)
    measured = {
        engine: _read_measurement(places.get(engine)) or _measure(engine, folder, hardware, places) for engine in able
    }
    reading = [engine for engine, found in measured.items() if not found.refused]
    refusals = [f"{engine.name}: {found.refused}" for engine, found in measured.items() if found.refused]
    if not reading:
        raise invalid(f"no engine reads the model in {folder}: {'; '.join(refusals)}")
    keeping = [engine for engine in reading if engine.keeps_integers]
    reasons = list[str]()
    if keeping and keeping != reading and _takes_integers(folder):
        reading, reasons = keeping, ["it keeps the model's integer inputs exact"]
    winner = min(reading, key=lambda engine: (measured[engine].milliseconds is None, measured[engine].milliseconds))
    if refusals:
        log.warning("%s is served by %s, as other engines do not read it: %s", folder, winner.name, "; ".join(refusals))
    times = [f"{engine.name} {_timing_text(measured[engine])}" for engine in reading if engine is not winner]
    return winner, Choice(
        winner.name, "; ".join([f"{_timing_text(measured[winner])} per input", *reasons, *times, *refusals])
    )


def _takes_integers(folder: str) -> bool:
    """Return whether a model has integer inputs: usually positions in a tensor, or ids."""
    file = model_file(Path(folder))
    with suppress(OSError, ValueError):
        return file is not None and any(tensor.dtype in _INTEGERS for tensor in file.signature().inputs.values())
    return False


def known(folder: str, able: Sequence[Engine], hardware: Hardware) -> bool:
    """Return whether the times of all engines are cached for a model."""
    places = _cache_files(folder, able, hardware)
    return all(_read_measurement(places.get(engine)) for engine in able)


def _cache_files(folder: str, able: Sequence[Engine], hardware: Hardware) -> Mapping[Engine, Path]:
    """Return the cache file of each engine; empty without a cache."""
    if not hardware.cache_folder:
        return {}
    try:
        model = disk_cache.digest_of(Path(folder))[:32]
    except OSError:
        return {}
    kind = f"{processor()}-{hardware.precision}"
    names = {engine: f"race-{model}-{engine.name}-{metadata.version(engine.package)}-{kind}.json" for engine in able}
    return {engine: Path(hardware.cache_folder, name) for engine, name in names.items()}


def _read_measurement(place: Path | None) -> _Measurement | None:
    content = disk_cache.read(place) if place else None
    with suppress(TypeError):  # another release may have other fields
        measured = _Measurement(**content) if content else None
        return measured if measured and not measured.refused else None  # earlier releases cached refusals
    return None


def _timing_text(measured: _Measurement) -> str:
    return "not timed" if measured.milliseconds is None else f"{measured.milliseconds:.3g} ms of CPU"


def _measure(engine: Engine, folder: str, hardware: Hardware, places: Mapping[Engine, Path]) -> _Measurement:
    """Return a child's result. Times are cached, refusals are not: they may depend on more than the model's files, such
    as memory and permissions."""
    asked = json.dumps([engine.name, folder, asdict(hardware)])
    try:
        output, ended = run([sys.executable, "-P", "-m", "lightbox.engines.race", asked])
    except OSError as error:
        return _Measurement(refused=f"its process could not be started: {error.strerror}")
    lines = [line.decode() for line in output.splitlines() if line.startswith(b'{"milliseconds"')]
    if not lines:
        return _Measurement(refused=f"its process {ended}")
    measured = _Measurement(**json.loads(lines[-1]))
    if engine in places and not measured.refused:
        with suppress(OSError):  # a full disk does not stop the server
            disk_cache.write(places[engine], asdict(measured))
    return measured


def main(asked: str) -> None:
    """Open a model with one engine, in the child; print a line of JSON."""
    name, folder, hardware = json.loads(asked)
    try:
        measured = _Measurement(
            _milliseconds(named(name).open(folder, OpenOptions(Hardware(**hardware), ("serve",))).runner)
        )
    except StatusError as error:
        measured = _Measurement(refused=error.message)
    print(json.dumps(asdict(measured)), flush=True)


def _milliseconds(runner: Runner) -> float | None:
    """Return the lowest CPU time of a call: other load can only add to it."""
    ((_, signature),) = runner.signatures.items()
    fetches = [info.name for info in signature.outputs.values()]
    for side in sides(signature):
        call = partial(runner.run, batches(signature, 1, side)[0], fetches)
        try:
            call()
        except StatusError:
            continue
        times: list[float] = []
        end = time.monotonic() + _LONGEST_SECONDS
        while len(times) < _ROUNDS and (not times or time.monotonic() < end):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times) * 1e3
    return None


if __name__ == "__main__":
    main(sys.argv[1])
