"""The fastest engine of a model without a reference engine.

Each engine runs made-up inputs in a child process, which may crash. If their results are equal but for rounding, the
lowest CPU time wins, else the engine that follows the file's specification. Results are cached for the file, the
releases of the engines and the kind of processor.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile

import numpy as np

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.comparison import OF_FLOAT16, OF_FLOAT32, difference
from lightbox.model_runtime.engines.engine import Choice, Engine, OpenOptions, named
from lightbox.model_runtime.engines.hardware import PRECISIONS, Hardware, processor
from lightbox.model_runtime.engines.own_process import LATE, run
from lightbox.model_runtime.engines.samples import batches, sides
from lightbox.model_runtime.formats import ONNX, model_file
from lightbox.model_runtime.formats.onnx import operations
from lightbox.model_runtime.wire.dtypes import (
    DT_HALF,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
)
from lightbox.model_runtime.wire.status import StatusError, invalid

log = logging.getLogger("model_server")

_ROUNDS, _LONGEST_SECONDS = 25, 1.0
_INTEGERS = {DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_UINT16, DT_UINT32, DT_UINT64}
"""Integer dtypes except uint8, which are pixels."""
_ONNX_FLOAT16 = 10
_AGAIN_SECONDS = 600.0
"""Seconds until an engine that took too long for a file is tried with it again."""
_late: dict[Path, tuple[float, str]] = {}
"""By the cache file of a measurement: when to try again, and the refusal."""


@dataclass(frozen=True)
class _Measurement:
    """A child's result: ``refused`` is the reason for a refusal."""

    milliseconds: float | None = None
    """CPU time per row; None if the engine refuses all made-up inputs."""
    refused: str = ""
    differs: str = ""
    """How the results differ from those of the engine that follows the file's specification."""


def fastest(
    folder: str, able: Sequence[Engine], hardware: Hardware, rows: Sequence[int] = (1,)
) -> tuple[Engine, Choice]:
    """Return the engine that reads a model and takes the least CPU time, and the reason.

    If results differ, or for integer inputs, an engine that follows the file's specification is preferred; without
    one, the log names what the winner is known to compute otherwise. Raises INVALID_ARGUMENT with each engine's reason
    if none reads it. ``rows`` are those of ``OpenOptions``.
    """
    measured = _measurements(folder, able, hardware, rows)
    reading = [engine for engine, measurement in measured.items() if not measurement.refused]
    refusals = [
        f"{engine.name}: {measurement.refused}" for engine, measurement in measured.items() if measurement.refused
    ]
    if not reading:
        raise invalid(f"no engine reads the model in {folder}: {'; '.join(refusals)}")
    following = [engine for engine in reading if engine.follows_files]
    reasons = [f"{engine.name} differs: {measured[engine].differs}" for engine in reading if measured[engine].differs]
    if following and following != reading and _takes_integers(folder):
        reasons.append("it keeps the model's integer inputs exact")
    if following and reasons:
        reading = following
    winner = min(reading, key=lambda engine: (measured[engine].milliseconds is None, measured[engine].milliseconds))
    if refusals:
        log.warning("%s is served by %s, as other engines do not read it: %s", folder, winner.name, "; ".join(refusals))
    if any(measurement.differs for measurement in measured.values()):
        log.warning("%s is served by %s, which follows the file: %s", folder, winner.name, "; ".join(reasons))
    if not following and (departures := winner.departures(Path(folder))):
        reasons.append(f"it may compute otherwise than the file specifies: {', '.join(departures)}")
        log.warning("%s is served by %s, %s", folder, winner.name, reasons[-1].replace("it may", "which may"))
    times = [f"{engine.name} {_timing_text(measured[engine])}" for engine in reading if engine is not winner]
    return winner, Choice(
        winner.name, "; ".join([f"{_timing_text(measured[winner])} per input", *reasons, *times, *refusals])
    )


def _measurements(
    folder: str, able: Sequence[Engine], hardware: Hardware, rows: Sequence[int]
) -> dict[Engine, _Measurement]:
    """Return each engine's measurement. If one is new and no refusal, all are made anew, to compare the results."""
    places = _cache_files(folder, able, hardware, rows)
    cached = {engine: measurement for engine in able if (measurement := _read_measurement(places.get(engine)))}
    if len(cached) == len(able):
        return cached
    with TemporaryDirectory(prefix="race-") as results:

        def measured(engines: Sequence[Engine]) -> dict[Engine, _Measurement]:
            remaining = [engine for engine in engines if not (engine in cached and cached[engine].refused)]
            return {
                engine: _measure(engine, folder, hardware, rows, results, places.get(engine), len(remaining) - number)
                for number, engine in enumerate(remaining, 1)
            }

        fresh = measured([engine for engine in able if engine not in cached])
        if any(not measurement.refused for measurement in fresh.values()):
            fresh |= measured(list(cached))
        by_engine = {engine: _results(Path(results, engine.name)) for engine in fresh}
    expected = next((by_engine[engine] for engine in fresh if engine.follows_files), {})
    tolerance = OF_FLOAT16 if _computes_in_float16(folder) else OF_FLOAT32
    for engine, measurement in fresh.items():
        if (got := by_engine[engine]).keys() == expected.keys() and hardware.precision == PRECISIONS[0]:
            why = difference({name: (expected[name], got[name]) for name in got}, tolerance)
            fresh[engine] = replace(measurement, differs=why or "")
        if engine in places and not measurement.refused:
            with suppress(OSError):  # a full disk does not stop the server
                disk_cache.write(places[engine], asdict(fresh[engine]))
    return cached | fresh


def _results(place: Path) -> dict[str, Array]:
    """Return what a child has written; nothing if it has ended early, or if its engine refuses the made-up inputs."""
    try:
        with np.load(place.with_suffix(".npz")) as found:
            return dict(found)
    except (OSError, ValueError, BadZipFile):
        return {}


def _takes_integers(folder: str) -> bool:
    """Return whether a model has integer inputs: usually positions in a tensor, or ids."""
    file = model_file(Path(folder))
    with suppress(OSError, ValueError):
        return file is not None and any(tensor.dtype in _INTEGERS for tensor in file.signature().inputs.values())
    return False


def _computes_in_float16(folder: str) -> bool:
    """Return whether an ONNX file takes or gives float16, or casts numbers to it; weights alone may be cast to
    float32."""
    file = model_file(Path(folder))
    with suppress(OSError, ValueError):
        if file is not None and file.format == ONNX:
            signature = file.signature()
            tensors = (*signature.inputs.values(), *signature.outputs.values())
            return any(tensor.dtype == DT_HALF for tensor in tensors) or any(
                operation == "Cast" and attributes.get("to") == [_ONNX_FLOAT16]
                for operation, attributes in operations(file.path)
            )
    return False


def known(folder: str, able: Sequence[Engine], hardware: Hardware) -> bool:
    """Return whether the times of all engines are cached for a model."""
    places = _cache_files(folder, able, hardware, (1,))
    return all(_read_measurement(places.get(engine)) for engine in able)


def _cache_files(folder: str, able: Sequence[Engine], hardware: Hardware, rows: Sequence[int]) -> Mapping[Engine, Path]:
    """Return the cache file of each engine; empty without a cache."""
    if not hardware.cache_folder:
        return {}
    try:
        model = disk_cache.digest_of(Path(folder))[:32]
    except OSError:
        return {}
    kind = f"{processor()}-{hardware.precision}" + (f"-{max(rows)}" if max(rows, default=1) > 1 else "")
    releases = "-".join(metadata.version(engine.package) for engine in able)
    folder_of_cache = Path(hardware.cache_folder)
    return {engine: folder_of_cache / f"race-{model}-{engine.name}-{releases}-{kind}.json" for engine in able}


def _read_measurement(place: Path | None) -> _Measurement | None:
    if place in _late and time.monotonic() < _late[place][0]:
        return _Measurement(refused=_late[place][1])
    content = disk_cache.read(place) if place else None
    with suppress(TypeError):  # another release may have other fields
        measured = _Measurement(**content) if content else None
        return measured if measured and not measured.refused else None  # earlier releases cached refusals
    return None


def _timing_text(measured: _Measurement) -> str:
    return "not timed" if measured.milliseconds is None else f"{measured.milliseconds:.3g} ms of CPU"


def _measure(
    engine: Engine,
    folder: str,
    hardware: Hardware,
    rows: Sequence[int],
    results: str,
    place: Path | None,
    more: int,
) -> _Measurement:
    """Return a child's result, whose outputs it writes to a folder; ``more`` engines are measured after it.

    Times are cached, refusals are not: they may depend on more than the model's files, such as memory and permissions.
    An engine that took too long gets no second try for a while.
    """
    asked = json.dumps([engine.name, folder, asdict(hardware), list(rows), results])
    try:
        output, ended = run([sys.executable, "-P", "-m", "lightbox.model_runtime.engines.race", asked], more)
    except OSError as error:
        return _Measurement(refused=f"its process could not be started: {error.strerror}")
    if place and ended.startswith(LATE):
        again = time.monotonic() + _AGAIN_SECONDS
        _late[place] = again, f"its process {ended}; it is tried again after {_AGAIN_SECONDS:g} s"
    lines = [line.decode() for line in output.splitlines() if line.startswith(b'{"milliseconds"')]
    if not lines:
        return _Measurement(refused=f"its process {ended}")
    return _Measurement(**json.loads(lines[-1]))


def main(asked: str) -> None:
    """Open a model with one engine, in the child; print a line of JSON."""
    name, folder, hardware, rows, results = json.loads(asked)
    try:
        runner = named(name).open(folder, OpenOptions(Hardware(**hardware), ("serve",), batches=rows)).runner
        measured = _Measurement(_milliseconds(runner, Path(results, name)))
    except StatusError as error:
        measured = _Measurement(refused=error.message)
    print(json.dumps(asdict(measured)), flush=True)


def _milliseconds(runner: Runner, results: Path) -> float | None:
    """Return the lowest CPU time of a call: other load can only add to it. Write the results of made-up inputs."""
    ((_, signature),) = runner.signatures.items()
    fetches = [info.name for info in signature.outputs.values()]
    for side in sides(signature):
        made = batches(signature, 1, side)
        call = partial(runner.run, made[0], fetches)
        try:
            first_results = [runner.run(feeds, fetches) for feeds in made]
        except StatusError:
            continue
        if not any(array.dtype.hasobject for arrays in first_results for array in arrays):
            named_results = {
                f"{name} (made-up input {number + 1})": array
                for number, arrays in enumerate(first_results)
                for name, array in zip(signature.outputs, arrays, strict=True)
            }
            with suppress(OSError, ValueError), results.with_suffix(".npz").open("wb") as file:
                np.savez(file, **named_results)  # type: ignore[arg-type]
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
