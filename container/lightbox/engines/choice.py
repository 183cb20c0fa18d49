"""Chooses the engine of a model, signature by signature, and sends each call to it."""

from __future__ import annotations

import importlib.util
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lightbox.engines import samples
from lightbox.engines.base import Array, Runner
from lightbox.engines.hardware import INT8, PRECISIONS, Hardware
from lightbox.engines.openvino import canary, gate
from lightbox.engines.openvino.compiled import Compiled
from lightbox.engines.openvino.graph import read_meta_graph
from lightbox.engines.openvino.guards import LARGEST
from lightbox.engines.openvino.int8 import quantized
from lightbox.engines.openvino.verdicts import OPENVINO, TENSORFLOW, Key, Verdict, digest, keep, recall
from tfs_wire.messages import meta_graph_pb2
from tfs_wire.status import Code, StatusError, invalid

log = logging.getLogger("model_server")

AUTO = "auto"
ENGINES = (TENSORFLOW, OPENVINO, AUTO)
OPTIONS_FILE = "lightbox.json"
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def is_installed(engine: str) -> bool:
    """Whether the packages of an engine can be imported."""
    return importlib.util.find_spec(engine) is not None


def own_options(folder: str) -> dict[str, str]:
    """Return ``engine`` and ``precision`` as ``code/lightbox.json`` has them; raise INVALID_ARGUMENT.

    The model's own comes first, then that beside all models.
    """
    version = Path(folder)
    target = version.resolve()  # Lightbox shows versions as links
    for beside in (version.parent, target, target.parent, target.parent.parent):
        path = beside / "code" / OPTIONS_FILE
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise invalid(f"{path} cannot be read: {error}") from None
        return checked_options(content, str(path))
    return {}


def checked_options(content: object, place: str) -> dict[str, str]:
    """Return what ``content`` has of ``engine`` and ``precision``; raise INVALID_ARGUMENT for another value."""
    found = {}
    for key, allowed in (("engine", ENGINES), ("precision", PRECISIONS)):
        value = content.get(key) if isinstance(content, dict) else None
        if value not in (None, *allowed):
            raise invalid(f"{place}: {key}: expected {', '.join(allowed)}, got {value!r}")
        if value is not None:
            found[key] = value
    return found


@dataclass(frozen=True)
class Opener:
    """How the SavedModels of a server are opened."""

    engine: str
    tags: tuple[str, ...]
    session_config: bytes
    hardware: Hardware
    is_guarded: bool = True
    """Whether no input may end the process, see RankGuard."""
    options: Mapping[str, str] = field(default_factory=dict)
    """``engine`` and ``precision`` for all models, whatever their own ``lightbox.json`` says."""

    def open(self, folder: str, batches: Sequence[int] = (1,)) -> tuple[Runner, dict[str, Verdict]]:
        """Load the SavedModel in ``folder`` and answer made inputs of each batch size; raise StatusError.

        Return the verdict on each signature too; there is none where nothing was to be decided.
        """
        options = own_options(folder) | dict(self.options)
        precision = options.get("precision", self.hardware.precision)
        with_precision = replace(self, hardware=replace(self.hardware, precision=precision))
        return with_precision._open(folder, batches, options.get("engine", self.engine))

    def _open(self, folder: str, batches: Sequence[int], wanted: str) -> tuple[Runner, dict[str, Verdict]]:
        can_fall_back = wanted == AUTO and is_installed(TENSORFLOW)
        if wanted == TENSORFLOW or (wanted == AUTO and not is_installed(OPENVINO)):
            return self._tensorflow(folder), {}
        if not is_installed(OPENVINO):
            raise invalid(f"engine {wanted}: the package openvino is not installed")
        try:
            meta_graph = read_meta_graph(folder, self.tags)
        except StatusError:
            if wanted == AUTO:
                return self._tensorflow(folder), {}  # a text proto, or its own error
            raise
        verdicts = self.verdicts(folder, meta_graph)
        compiled = self._compiled(folder, meta_graph, verdicts, can_fall_back)
        for name, verdict in sorted(verdicts.items()):
            engine = OPENVINO if name in compiled else TENSORFLOW
            verdicts[name] = replace(verdict, engine=engine)
            log.info("engine of %s, signature %s: %s (%s)", folder, name, engine, verdict.reason)
        if not compiled:
            if can_fall_back:
                return self._tensorflow(folder), verdicts
            reasons = "; ".join(f"{name}: {verdict.reason}" for name, verdict in sorted(verdicts.items()))
            raise invalid(f"OpenVINO takes no signature of {folder}: {reasons}")
        session = Chosen(meta_graph, compiled, verdicts, (lambda: self._tensorflow(folder)) if can_fall_back else None)
        session.warm(batches)
        return session, verdicts

    def _tensorflow(self, folder: str) -> Runner:
        try:
            from lightbox.engines.tensorflow.session import TensorFlowSession

            return TensorFlowSession(folder, self.tags, self.session_config, self.is_guarded)
        except ImportError as error:
            raise StatusError(Code.UNIMPLEMENTED, str(error)) from None

    def verdicts(
        self, folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, compares: bool = True
    ) -> dict[str, Verdict]:
        """Return the verdict of each public signature: of the gate, as remembered, or of a canary now.

        Unless ``compares``, those that are not known have no engine.
        """
        refusals = gate.refusals(meta_graph)
        found = {name: Verdict(TENSORFLOW, why) for name, why in refusals.items() if why is not None}
        open_ones = tuple(sorted(name for name, why in refusals.items() if why is None))
        if not open_ones:
            return found
        if self.hardware.precision == INT8:
            return found | self._with_int8(folder, meta_graph, open_ones, compares)
        key = Key.of(folder, self.hardware.precision)
        known = recall(folder, key, self.hardware.cache_folder) or {}
        unknown = tuple(name for name in open_ones if name not in known)
        if unknown and not compares:
            known |= {name: Verdict("", "the engines are compared when the model is loaded") for name in unknown}
        elif unknown:
            task = canary.Task(folder, self.tags, unknown, self.session_config.hex(), self.hardware)
            known |= canary.judge(task)
            keep(key, self.hardware.cache_folder, known)
        return found | {name: known[name] for name in open_ones}

    def _with_int8(
        self, folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, names: Sequence[str], compares: bool
    ) -> dict[str, Verdict]:
        """Return OpenVINO for the signatures that have an INT8 model, and the verdict in f32 on the others."""
        model = digest(Path(folder))
        made = {name: found for name in names if (found := quantized(folder, name, model)) is not None}
        in_f32 = replace(self, hardware=replace(self.hardware, precision="f32"))
        verdicts = {
            name: replace(verdict, reason=f"no INT8 model: {verdict.reason}")
            for name, verdict in in_f32.verdicts(folder, meta_graph, compares).items()
            if name in names and name not in made
        }
        if made and compares:
            task = canary.Task(folder, self.tags, tuple(made), self.session_config.hex(), self.hardware)
            verdicts |= canary.judge(task)
        for name, item in made.items():
            if not compares or verdicts[name].engine == OPENVINO:
                verdicts[name] = Verdict(OPENVINO, f"INT8: {item.summary}", lasts=False)
        return verdicts

    def _compiled(
        self, folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, verdicts: dict[str, Verdict], can_fall_back: bool
    ) -> dict[str, Compiled]:
        """Compile what OpenVINO is to answer: what is faster, or all that is equal where there is nothing else."""
        compiled = {}
        for name, verdict in verdicts.items():
            is_taken = verdict.engine == OPENVINO or (verdict.is_equal and not can_fall_back)
            if not is_taken:
                continue
            if not verdict.is_equal:
                why = verdict.reason if verdict.reason.startswith("INT8") else f"never compared: {verdict.reason}"
                log.warning("signature %s of %s: OpenVINO's answers may not be TensorFlow's: %s", name, folder, why)
            try:
                compiled[name] = Compiled(folder, meta_graph, name, self.hardware, is_exact=can_fall_back)
            except StatusError as error:
                verdicts[name] = Verdict(TENSORFLOW, error.message)
        return compiled


class Chosen:
    """Answers signatures by OpenVINO, and the rest by TensorFlow where that is allowed.

    TensorFlow is opened when it is first needed: for another signature or tensor, an input that the signature
    does not declare, NaN, infinity or a value beyond ``LARGEST``, or after an error of OpenVINO, so that errors
    have TensorFlow's texts.
    """

    def __init__(
        self,
        meta_graph: meta_graph_pb2.MetaGraphDef,
        compiled: Mapping[str, Compiled],
        verdicts: Mapping[str, Verdict],
        open_tensorflow: Callable[[], Runner] | None,
    ) -> None:
        self.verdicts = verdicts
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = {}
        for name, signature in meta_graph.signature_def.items():
            self.signatures[name] = meta_graph_pb2.SignatureDef()
            self.signatures[name].CopyFrom(signature)
        self._compiled = compiled
        self._open_tensorflow = open_tensorflow
        self._tensorflow: Runner | None = None
        self._lock = threading.Lock()
        # Whoever asks for another signature should not wait for TensorFlow then.
        if open_tensorflow is not None and len(compiled) < len(verdicts):
            self._fallback()

    def warm(self, batches: Sequence[int]) -> None:
        """Answer made inputs: OpenVINO prepares itself for each batch size at its first call."""
        for compiled in self._compiled.values():
            fetches = [info.name for info in compiled.signature.outputs.values()]
            for count in batches:
                try:
                    compiled.run(samples.batches(compiled.signature, count)[0], fetches)
                except StatusError as error:
                    log.info(
                        "signature %s: made inputs of %d rows are refused: %s", compiled.name, count, error.message
                    )

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches``; see ``Runner.run``."""
        compiled = next((item for item in self._compiled.values() if item.takes(feeds, fetches)), None)
        if compiled is None:
            return self._refused(feeds, fetches).run(feeds, fetches, options)
        why = compiled.misfit(feeds)
        if self._open_tensorflow is None:
            if why is not None:
                raise invalid(why)
            return compiled.run(feeds, fetches, options)
        if why is not None or not all(_is_within(array, LARGEST) for array in feeds.values()):
            return self._fallback().run(feeds, fetches, options)
        try:
            results = compiled.run(feeds, fetches, options)
        except StatusError as error:
            if error.code == Code.DEADLINE_EXCEEDED:
                raise
            return self._fallback().run(feeds, fetches, options)
        if not all(_is_within(array, _LARGEST_FLOAT) for array in results):
            return self._fallback().run(feeds, fetches, options)
        return results

    def _refused(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> Runner:
        """Return TensorFlow for what no compiled signature has; raise StatusError where it is not allowed."""
        if self._open_tensorflow is not None:
            return self._fallback()
        for name, signature in self.signatures.items():
            names = {info.name for info in signature.outputs.values()}
            if names.issuperset(fetches) and {info.name for info in signature.inputs.values()} == set(feeds):
                why = self.verdicts[name].reason if name in self.verdicts else "it is not public"
                raise StatusError(Code.UNIMPLEMENTED, f"engine openvino does not take signature {name!r}: {why}")
        raise StatusError(Code.UNIMPLEMENTED, "engine openvino answers the inputs of a whole signature only")

    def _fallback(self) -> Runner:
        with self._lock:
            if self._tensorflow is None:
                assert self._open_tensorflow is not None
                self._tensorflow = self._open_tensorflow()
            return self._tensorflow

    def close(self) -> None:
        """Free what was loaded; no call may be under way."""
        self._compiled = {}
        with self._lock:
            if self._tensorflow is not None:
                self._tensorflow.close()


def _is_within(array: Array, limit: float) -> bool:
    """Whether floats are from ``-limit`` to ``limit``, and none is NaN."""
    return array.dtype.kind != "f" or not array.size or bool(array.max() <= limit and array.min() >= -limit)
