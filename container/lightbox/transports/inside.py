"""The transport ``inside``: OpenVINO and ONNX Runtime answer in this process, another transport does the rest.

The model server loads each version first, and reports the engine of each signature and the files. This process then
loads the version beside it, if engines and files are the same. Until then, and for whatever does not succeed here,
calls go to the model server, so that all errors are its own (docs/adr/117-inside.md).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from typing_extensions import override

from lightbox.base.machine.memory import available_bytes
from lightbox.base.machine.shared_files import hold, release
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.model.catalogue import PlannedModel
from lightbox.model.engine_report import Load, engines_of, load_of
from lightbox.model.options import OptionSettings
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.model_files.checks import bytes_of_files
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.disk_cache import cache_folder, stamp_of
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.messages import config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError
from lightbox.transports.base import Transport

log = logging.getLogger("lightbox")

_NUMBERS = "fiub"
"""The kinds of arrays that mean the same here and in a message."""
_NEEDED = 3
"""Times the bytes of a version's files that must be free: weights, the engine's own form of them, and results."""
_LOCK = "inside.lock"
"""One load at a time in all workers: each sees the memory that the others have taken."""


class _Loaded(NamedTuple):
    """A version in this process."""

    load: Load
    """Of the model server."""
    facts: tuple[object, ...] = ()
    """Its files, and the engine of each signature."""
    runner: Runner | None = None
    """None while it is loaded, and for a version that stays in the model server."""


class InsideTransport(Transport):
    """Runs the versions of ``models`` that answer; ``others`` carries all other calls.

    ``answering`` returns the versions of each model that answer requests without a version. A version is loaded in a
    thread of its own, at its first call after the model server has loaded it, unless files and engines are those of
    before. It is freed when it no longer answers.
    """

    name = "inside"

    def __init__(
        self,
        models: Mapping[str, PlannedModel],
        answering: Callable[[], Mapping[str, Sequence[int]]],
        opener: Opener,
        run_dir: Path,
        others: Transport,
    ) -> None:
        self._models, self._answering, self._opener = models, answering, opener
        self._run_dir, self._others = run_dir, others
        self._seen: object = None
        """The last result of ``answering``: the same object until there is a change."""
        self._changing = threading.Lock()
        self._loaded: dict[tuple[str, int], _Loaded] = {}

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        return self._others.signature(model, version, name, context)

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        runner = self._runner(call.signature.model, call.signature.version)
        if runner is not None and all(array.dtype.kind in _NUMBERS for array in call.inputs.values()):
            try:
                with context.stage("predict"):
                    found = _run(runner, call, context.time_left())
            except (StatusError, MemoryError):
                pass
            else:
                context.time_left()  # ONNX Runtime does not stop at the deadline
                context.transport = self.name
                return found
        return self._others.predict(call, context)

    def _runner(self, model: str, version: int) -> Runner | None:
        key, answering = (model, version), self._answering()
        if answering is not self._seen:
            with self._changing:
                self._seen = answering
                self._loaded = {
                    other: loaded for other, loaded in self._loaded.items() if self._answers(*other, answering)
                }
        if not self._answers(*key, answering) or (load := load_of(self._run_dir, model, version)) is None:
            return None
        known = self._loaded.get(key)
        if known is None or known.load != load:
            with self._changing:
                known = self._loaded.get(key)
                if known is None or known.load != load:
                    self._loaded[key] = _Loaded(load)
                    threading.Thread(target=self._load, args=(model, version, load, known), daemon=True).start()
                    return None
        return known.runner

    def _answers(self, model: str, version: int, answering: Mapping[str, Sequence[int]]) -> bool:
        planned = self._models.get(model)
        return planned is not None and (planned.versions_dir is None or version in answering.get(model, ()))

    def _load(self, model: str, version: int, load: Load, before: _Loaded | None) -> None:
        try:
            now = self._opened(model, version, load, before)
        except Exception as error:  # the model server answers
            why = error.message if isinstance(error, StatusError) else repr(error)
            log.warning("version %d of the model %r answers in the model server alone: %s", version, model, why)
            return
        with self._changing:
            if (known := self._loaded.get((model, version))) is None or known.load != load:
                return  # it has left, or come again
            self._loaded[model, version] = now
        log.info("version %d of the model %r answers in this process", version, model)

    def _opened(self, model: str, version: int, load: Load, before: _Loaded | None) -> _Loaded:
        """Load a version. Raises StatusError, also if it should not be here, and OSError."""
        folder = self._models[model].base_path / str(version)
        reported = engines_of(self._run_dir, model, version)
        engines = {item.signature: item.engine for item in reported}
        stamp = stamp_of(folder)
        if {item.files for item in reported} != {stamp}:
            raise _not_here("its files are no longer those that the model server has loaded")
        facts = (stamp, engines)
        if before is not None and before.facts == facts:
            return before._replace(load=load)
        lock = hold(self._run_dir / _LOCK, wait=True)
        assert lock is not None
        try:
            needed, free = _NEEDED * bytes_of_files(folder), available_bytes()
            if free is not None and needed > free:
                raise _not_here(f"it may take {needed >> 20} MiB here, and {free >> 20} are free")
            mark = self._run_dir / f"inside-{quote(model, safe='')}-{version}-{'-'.join(map(str, load))}"
            if mark.exists():
                raise _not_here("a process has ended while it loaded it")
            mark.touch()
            try:
                runner = self._opener.open_as(str(folder), engines)
            except Exception:
                mark.unlink()
                raise
            mark.unlink()
        finally:
            release(lock)
        if stamp_of(folder) != stamp:
            raise _not_here("its files have changed while they were read")
        return _Loaded(load, facts, runner)


def opener(settings: Settings, run_dir: Path) -> Opener:
    """Return what opens models in a worker, which has its share of the cores."""
    cores, (cache, _) = max(1, available_cores() // settings.workers), cache_folder(run_dir)
    hardware = Hardware.shared(cores, settings.intra_op_parallelism or 1, str(cache))
    options = settings.of(OptionSettings).of_engine()
    return Opener(settings.engine or AUTO, ("serve",), b"", hardware, options=options)


def _run(runner: Runner, call: ModelCall, seconds: float) -> dict[str, Array]:
    """Return the wanted outputs by name. Raises StatusError."""
    signature = runner.signatures.get(call.signature.name)
    names = call.outputs or tuple(call.signature.outputs)
    if signature is None or not (signature.inputs.keys() >= call.inputs.keys() and {*names} <= {*signature.outputs}):
        raise _not_here("the model server says what the signature does not have")
    if any(call.signature.outputs[name].is_string for name in names):
        raise _not_here("texts are not the same here and there")
    options = config_pb2.RunOptions(timeout_in_ms=max(1, int(seconds * 1000))) if math.isfinite(seconds) else None
    found = runner.run(
        {signature.inputs[name].name: array for name, array in call.inputs.items()},
        [signature.outputs[name].name for name in names],
        options.SerializeToString() if options else b"",
    )
    if any(array.dtype.kind not in _NUMBERS for array in found):
        raise _not_here("only numbers are the same here and there")
    return dict(zip(names, found, strict=True))


def _not_here(why: str) -> StatusError:
    return StatusError(Code.UNIMPLEMENTED, why)
