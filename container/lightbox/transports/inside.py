"""The transport ``inside``: OpenVINO and ONNX Runtime answer in this process, another transport does the rest.

The model server still loads each version first, and decides which engine runs it. This process then loads the version
beside it; until then, and for whatever does not succeed here, calls go to the model server, so that all errors are its
own (docs/adr/117-inside.md).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from lightbox.base.machine.memory import available_bytes
from lightbox.base.request_context import RequestContext
from lightbox.model.catalogue import PlannedModel
from lightbox.model.engine_report import Stamp, engines_of, stamp_of
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.model_files.checks import bytes_of_files
from lightbox.model_runtime.engines import DEFAULT
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.disk_cache import digest_of
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.messages import config_pb2, meta_graph_pb2
from lightbox.model_runtime.wire.status import Code, StatusError
from lightbox.transports.base import Transport

log = logging.getLogger("lightbox")

_NUMBERS = "fiub"
"""The kinds of arrays that mean the same here and in a message."""
_NEEDED = 3
"""Times the bytes of a version's files that must be free: weights, the engine's own form of them, and results."""


class _Elsewhere:
    """Stands for TensorFlow, which this process does not load."""

    def __init__(self) -> None:
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = {}

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        raise _not_here("the model server answers it")

    def close(self) -> None:
        pass


class _Loaded(NamedTuple):
    """A version in this process."""

    stamp: Stamp
    """Of the model server's load."""
    digest: str = ""
    """Of its files."""
    runner: Runner | None = None
    """None while it is loaded, and for a version that stays in the model server."""


class InsideTransport(Transport):
    """Runs the versions of ``models`` that answer; ``others`` carries all other calls.

    ``answering`` returns the versions of each model that answer requests without a version. A version is loaded in a
    thread of its own at its first call after the model server has loaded it, unless its files are those of before. It
    is freed when another one is loaded after it has left.
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
        self._models, self._answering, self._run_dir, self._others = models, answering, run_dir, others
        self._elsewhere = _Elsewhere()
        self._opener = replace(opener, elsewhere=self._elsewhere)
        self._loading = threading.Lock()
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
            except StatusError:
                pass
            else:
                context.transport = self.name
                return found
        return self._others.predict(call, context)

    def _runner(self, model: str, version: int) -> Runner | None:
        if not self._answers(model, version) or (stamp := stamp_of(self._run_dir, model, version)) is None:
            return None
        known = self._loaded.get((model, version))
        if known is None or known.stamp != stamp:
            with self._loading:
                known = self._loaded.get((model, version))
                if known is None or known.stamp != stamp:
                    kept = {key: loaded for key, loaded in self._loaded.items() if self._answers(*key)}
                    self._loaded = kept | {(model, version): _Loaded(stamp)}
                    load = threading.Thread(target=self._load, args=(model, version, stamp, known), daemon=True)
                    load.start()
                    return None
        return known.runner

    def _answers(self, model: str, version: int) -> bool:
        planned = self._models.get(model)
        return planned is not None and (planned.versions_dir is None or version in self._answering().get(model, ()))

    def _load(self, model: str, version: int, stamp: Stamp, before: _Loaded | None) -> None:
        try:
            digest = digest_of(self._models[model].base_path / str(version))
            is_same = before is not None and before.digest == digest
            runner = before.runner if before and is_same else self._opened(model, version)
        except (StatusError, OSError) as error:
            why = error.message if isinstance(error, StatusError) else error
            log.warning("version %d of the model %r answers in the model server alone: %s", version, model, why)
        else:
            self._loaded[model, version] = _Loaded(stamp, digest, runner)
            log.info("version %d of the model %r answers in this process", version, model)

    def _opened(self, model: str, version: int) -> Runner:
        """Load a version. Raises StatusError, also if it should not be here, and OSError."""
        engines = sorted({item.engine for item in engines_of(self._run_dir, model, version)})
        if engines in ([], [DEFAULT]):
            raise _not_here(f"its engine is {DEFAULT}")
        folder = self._models[model].base_path / str(version)
        needed, free = _NEEDED * bytes_of_files(folder), available_bytes()
        if free is not None and needed > free:
            raise _not_here(f"it may take {needed >> 20} MiB here, and {free >> 20} are free")
        runner = self._opener.open(str(folder)).runner
        if runner is self._elsewhere:
            raise _not_here(f"no engine but {DEFAULT} runs it")
        return runner


def _run(runner: Runner, call: ModelCall, seconds: float) -> dict[str, Array]:
    """Return the wanted outputs by name. Raises StatusError."""
    signature = runner.signatures[call.signature.name]
    names = call.outputs or tuple(signature.outputs)
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
